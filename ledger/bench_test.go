package ledger_test

import (
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// oneConsumer is the most common record: one consumer, three classes.
func oneConsumer() ledger.Record {
	provider := ledgertest.ID(1, 1)
	return ledger.Record{
		CommandID: ledgertest.ID(4, 1), Command: "AllocateForConsumers", Time: 1_700_000_000_000_000_000, Actor: "admin",
		RequestID: "req-11111111-2222-3333-4444-555555555555",
		Events: []ledger.Event{
			ledger.AllocationsReplaced{
				Consumer: ledgertest.ID(2, 1), Project: "11111111-2222-3333-4444-555555555555",
				User: "99999999-8888-7777-6666-555555555555", Type: "INSTANCE",
				Allocations: []ledger.AllocationRecord{
					{Provider: provider, Class: "VCPU", Amount: 2}, {Provider: provider, Class: "MEMORY_MB", Amount: 2048},
					{Provider: provider, Class: "DISK_GB", Amount: 20},
				},
			},
			ledger.ProviderGenerationsAdvanced{Providers: []ledger.ProviderGeneration{{Provider: provider, Generation: 7}}},
		},
	}
}

const benchRecords = 100

func BenchmarkDecodeRecord(b *testing.B) {
	commit := &ledger.Commit{Sequence: 1}
	for range benchRecords {
		commit.Records = append(commit.Records, oneConsumer())
	}
	encoded := ledgertest.Encoded(b, commit)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += benchRecords {
		if _, err := ledger.DecodeCommit(encoded); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(encoded))/benchRecords, "B/record")
}
