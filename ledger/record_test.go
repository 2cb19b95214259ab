package ledger_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestRecordsInACommit: the parts of a commit can be taken out of it: its link,
// each record, and each leaf, which has everything about its record.
func TestRecordsInACommit(t *testing.T) {
	t.Parallel()
	for _, history := range ledgertest.Histories(t) {
		commit := *history.Commits[len(history.Commits)-1]
		commit.Records = append(slices.Clone(commit.Records), commit.Records[0])
		encoded := ledgertest.Encoded(t, &commit)
		sequence, prev, err := ledger.CommitLink(encoded)
		if err != nil || sequence != commit.Sequence || prev != commit.Prev {
			t.Errorf("%s: the link says %d, %s, %v", history.Name, sequence, prev, err)
		}
		decoded := ledgertest.Must(ledger.DecodeCommit(encoded))
		leaves := ledgertest.Must(ledger.LeavesData(encoded))
		if len(leaves) != len(commit.Records) {
			t.Fatalf("%s: %d leaves of %d records", history.Name, len(leaves), len(commit.Records))
		}
		for i, data := range leaves {
			at := ledger.Address{Sequence: commit.Sequence, Index: i}
			if ledger.LeafHash(data) != decoded.Leaves[i] {
				t.Errorf("%s: record %d is not that of its leaf", history.Name, i)
			}
			gotAt, record, err := ledger.DecodeLeafData(data)
			diff := cmp.Diff(&commit.Records[i], record, cmpopts.EquateEmpty())
			if err != nil || gotAt != at || diff != "" {
				t.Errorf("%s: the leaf of %s is read as %s, %v\n%s", history.Name, at, gotAt, err, diff)
			}
		}
		checkCuts(t, history.Name, encoded)
	}
}

// checkCuts cuts a commit. Nothing can be taken out of the rest, except the link
// where it is whole.
func checkCuts(t *testing.T, name string, encoded []byte) {
	t.Helper()
	_, prev, err := ledger.CommitLink(encoded)
	ledgertest.OK(t, err)
	leaf := ledger.LeafData(ledger.Address{Sequence: 1}, encoded[len(encoded)/2:])
	for i := range encoded {
		if _, err := ledger.LeavesData(encoded[:i]); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("%s: a record of %d bytes of the commit: %v", name, i, err)
		}
		_, got, err := ledger.CommitLink(encoded[:i])
		if err == nil && got != prev || err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("%s: the link of %d bytes of the commit: %s, %v", name, i, got, err)
		}
	}
	for i := range leaf {
		if _, _, err := ledger.DecodeLeafData(leaf[:i]); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("%s: a leaf of %d bytes: %v", name, i, err)
		}
	}
}

// TestCommitBuilder: a commit takes records up to a limit, and reports the one
// that does not fit, which leaves no trace.
func TestCommitBuilder(t *testing.T) {
	t.Parallel()
	commits := ledgertest.Commits(t, 4)
	record := commits[3].Records[0]
	b := ledger.NewCommitBuilder()
	b.BeginAt(7, ledger.Digest{1})
	if b.Sequence() != 7 || b.Len() != 0 {
		t.Errorf("begun at %d with %d records", b.Sequence(), b.Len())
	}
	size, fits, err := b.Add(record, 1<<20)
	if err != nil || !fits || size != b.Size() || b.Len() != 1 {
		t.Fatalf("the first record: %d, %v, %v; %d of %d bytes", size, fits, err, b.Len(), b.Size())
	}
	one, _, err := b.Seal()
	ledgertest.OK(t, err)
	larger, fits, err := b.Add(record, size+1)
	if err != nil || fits || larger <= size || b.Len() != 1 || b.Size() != size {
		t.Errorf("one too many: %d, %v, %v; then %d of %d bytes", larger, fits, err, b.Len(), b.Size())
	}
	again, encoded, err := b.Seal()
	if err != nil || again.Digest != one.Digest || again.Size != len(encoded) || len(encoded) > size {
		t.Errorf("what did not fit is in it: %+v, %v", again, err)
	}
	if _, fits, err := b.Add(record, larger); err != nil || !fits || b.Len() != 2 {
		t.Errorf("as large as the limit: %v, %v", fits, err)
	}
	decoded, err := ledger.DecodeCommit(encoded)
	if err != nil || decoded.Sequence != 7 || decoded.Prev != (ledger.Digest{1}) || decoded.Head() != again.Head() {
		t.Errorf("%+v, %v", decoded, err)
	}
}

// TestDamagedStates cuts a State at every byte, and flips every bit: the result
// is refused, or is a State that can be written.
func TestDamagedStates(t *testing.T) {
	t.Parallel()
	for _, history := range ledgertest.Histories(t) {
		whole := ledgertest.EncodedState(t, ledgertest.Fold(t, history.Commits))
		for i := range whole {
			if _, err := ledger.DecodeState(whole[:i]); !errors.Is(err, ledger.ErrCorrupt) {
				t.Fatalf("%s, cut at byte %d: %v", history.Name, i, err)
			}
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << (i % 8)
			s, err := ledger.DecodeState(damaged)
			if err == nil {
				err = s.Encode(io.Discard)
			} else if errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrLevel) {
				err = nil // a higher level may be true: the snapshot's checksum would reveal the damage
			}
			if err != nil {
				t.Fatalf("%s, with byte %d flipped: %v", history.Name, i, err)
			}
		}
		if _, err := ledger.DecodeState(append(bytes.Clone(whole), 0)); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s, with a byte more: %v", history.Name, err)
		}
	}
}

const stateFields = 22

// TestContradictoryStates replaces an entity's name in a State by another one:
// parts that contradict each other are refused.
func TestContradictoryStates(t *testing.T) {
	t.Parallel()
	whole := ledgertest.EncodedState(t, refusingState(t))
	swap := func(old, new []byte) []byte { return bytes.Replace(whole, old, new, 1) }
	last := func(old, new []byte) []byte {
		i := bytes.LastIndex(whole, old)
		return slices.Concat(whole[:i], new, whole[i+len(old):])
	}
	instance, fields := ledgertest.ID(7, 3), []byte{stateFields, ledger.StateVersion}
	for name, data := range map[string][]byte{
		"a newer version":             swap(fields, []byte{stateFields, ledger.StateVersion + 1}),
		"fields of another version":   swap(fields, []byte{stateFields + 1, ledger.StateVersion}),
		"a parent that is not there":  swap(parent[:], missing[:]),
		"parents in a ring":           ring(t),
		"a holding of no provider":    last(parent[:], missing[:]),
		"a holding of no inventory":   last(parent[:], child[:]),
		"two nodes of one name":       swap([]byte("\xa5third"), []byte("\xa4idle")),
		"two nodes with one instance": swap(instance[:], given[:]),
		"two allocations of one name": swap([]byte("\xa7waiting"), []byte("\xa2a1")),
	} {
		if _, err := ledger.DecodeState(data); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ring is a State with two providers, each of them the other's parent.
func ring(t *testing.T) []byte {
	t.Helper()
	s := ledger.NewState()
	s.Begin()
	ledgertest.OK(t, s.Apply(1, &ledger.Record{Events: []ledger.Event{
		ledger.ProviderCreated{Provider: parent, Name: "parent"},
		ledger.ProviderCreated{Provider: child, Name: "child", Parent: parent},
		ledger.ProviderReparented{Provider: parent}, // its parent's bytes are the nil uuid
	}}))
	data := ledgertest.EncodedState(t, s)
	at := bytes.Index(data, append([]byte("\xa6parent\x00\xc4\x10"), ledger.NilUUID[:]...))
	if at < 0 {
		t.Fatalf("no provider without a parent in %x", data)
	}
	copy(data[at+10:], child[:])
	return data
}

// TestValuesOnDisk: a float that no inventory can have, a document in another form, and a text that spells no aggregate
// are damage.
func TestValuesOnDisk(t *testing.T) {
	t.Parallel()
	var events []ledger.Event
	for _, ratio := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		events = append(events, ledger.InventorySet{Inventory: ledger.InventoryRecord{Ratio: ratio}})
	}
	for _, text := range []ledger.Document{`{"b":1,"a":2}`, `{ }`, `[]`, `{`} {
		events = append(events, ledger.NodeAllocationUpdated{Extra: text})
	}
	for _, spelt := range []string{"none", ledger.SpelledPlain.Text(missing) + "-----"} {
		aggregates := []ledger.UUID{missing}
		events = append(events, ledger.ProviderAggregatesReplaced{Aggregates: aggregates, Spelt: []string{spelt}})
	}
	for _, event := range events {
		_, encoded := ledgertest.Commit(t, ledger.Head{}, ledger.Record{Events: []ledger.Event{event}})
		if _, err := ledger.DecodeCommit(encoded); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%+v: %v", event, err)
		}
	}
}
