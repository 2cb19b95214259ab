package ledgertest

import (
	"testing"

	"github.com/allot-project/allot/ledger"
)

// Commit is a commit of some records after another one, and its stored form.
func Commit(t testing.TB, after ledger.Head, records ...ledger.Record) (*ledger.Commit, []byte) {
	t.Helper()
	builder := ledger.NewCommitBuilder()
	builder.Begin(after)
	for _, r := range records {
		if _, fits, err := builder.Add(r, 1<<30); err != nil || !fits {
			t.Fatal(fits, err)
		}
	}
	commit, encoded, err := builder.Seal()
	OK(t, err)
	return commit, encoded
}

// chain makes a log with one record for each list of events.
func chain(t testing.TB, events [][]ledger.Event) []*ledger.Commit {
	t.Helper()
	return chainOf(t, events, func(int, *ledger.Record) {})
}

// chainOf is chain for records that are changed before they are written.
func chainOf(t testing.TB, events [][]ledger.Event, change func(i int, r *ledger.Record)) []*ledger.Commit {
	t.Helper()
	var head ledger.Head
	commits := make([]*ledger.Commit, len(events))
	for i, list := range events {
		record := ledger.Record{
			CommandID: ID(4, byte(i)), Fingerprint: ledger.Fingerprint{1, 2, 3}, Command: "Test",
			Time: 1_700_000_000_000_000_000 + int64(i), Actor: "admin", RequestID: "req-1",
			Cause: &ledger.Address{Sequence: 1, Index: 2}, Events: list,
		}
		change(i, &record)
		commits[i], _ = Commit(t, head, record)
		head = commits[i].Head()
	}
	return commits
}

// History is a log whose stored forms are all on file: the commits themselves,
// the State after them, and the read models made from them.
type History struct {
	Name    string // name of its files
	Commits []*ledger.Commit
}

// Histories are the logs of events.txt.
func Histories(t testing.TB) (histories []History) {
	t.Helper()
	for _, log := range readBook().logs {
		histories = append(histories, History{log.name, chainOf(t, log.commits, func(i int, r *ledger.Record) {
			if log.name == "packed" {
				r.Command, r.Actor = "AllocateForConsumers", "0123456789abcdef0123456789abcdef"
				r.RequestID = "req-" + ID(5, byte(i)).String()
			}
		})})
	}
	return histories
}
