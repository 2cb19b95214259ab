package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// chained makes commits whose sequences leave out those given, as a writer
// does that has passed them over.
func chained(t *testing.T, n int, without ...uint64) (commits [][]byte) {
	t.Helper()
	var prev ledger.Digest
	sequence := uint64(0)
	for _, c := range ledgertest.Commits(t, n) {
		for sequence++; slices.Contains(without, sequence); sequence++ {
			commits = append(commits, nil)
		}
		c.Sequence, c.Prev = sequence, prev
		data, err := ledger.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		prev = ledger.DigestOf(data)
		commits = append(commits, data)
	}
	return commits
}

// logOf is a log with entries.
func logOf(t *testing.T, entries [][]byte) *memlog.Log {
	t.Helper()
	log := &memlog.Log{}
	for i, data := range entries {
		log.Append(uint64(i+1), data, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	return log
}

func sequences(log ledger.Log, prev ledger.Head, to uint64) (list []uint64, err error) {
	err = ledger.ReadCommits(context.Background(), log, prev, to, func(c *ledger.Commit) error {
		list = append(list, c.Sequence)
		return nil
	})
	return list, err
}

// TestForeignEntries: what somebody else wrote into the log is passed over if
// the next commit proves it, or if it is like nothing that the writer appends.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	copied := chained(t, 6)
	foreign := map[string][]byte{
		"a reply": []byte(
			`{"sequence":1,"result":[]}`,
		), "text": []byte("hello"), "a commit of this log": copied[1], "a commit's place": copied[3],
		"half a commit": copied[3][:len(copied[3])/2], "zeros": make([]byte, 100), "nothing": {},
		"four fields": {0x94, 1, 2, 3, 4},
	}
	alone := map[string]bool{"a reply": true, "text": true}
	for name, data := range foreign {
		entries := chained(t, 5, 3, 4)
		entries[2], entries[3] = data, []byte("{}")
		if got, err := sequences(logOf(t, entries), ledger.Head{}, 7); err != nil ||
			!slices.Equal(got, []uint64{1, 2, 5, 6, 7}) {
			t.Errorf("%s in the middle: %v, %v", name, got, err)
		}
		if got, err := sequences(logOf(t, entries), ledger.Head{}, 3); err != nil || len(got) != 2 {
			t.Errorf("%s, read up to it: %v, %v", name, got, err)
		}
		end := logOf(t, entries[:4])
		got, err := sequences(end, ledger.Head{}, 4)
		var bad *ledger.BadEntryError
		if (err == nil) != alone[name] || err != nil && (!errors.As(err, &bad) || bad.Sequence != 3) || len(got) != 2 {
			t.Errorf("%s at the end: %v, %v", name, got, err)
		}
		if got, err := sequences(ledger.PassOver(end, []uint64{3}), ledger.Head{}, 4); err != nil || len(got) != 2 {
			t.Errorf("%s at the end, passed over: %v, %v", name, got, err)
		}
	}
}

// TestDamageIsNotForeign: a commit that was damaged, in whatever way, is never
// passed over, not even if an operator says that one may.
func TestDamageIsNotForeign(t *testing.T) {
	t.Parallel()
	whole := chained(t, 6)
	for at := range whole {
		for name, damage := range map[string]func([]byte) []byte{
			"emptied":  func([]byte) []byte { return []byte{} },
			"zeroed":   func(b []byte) []byte { return make([]byte, len(b)) },
			"replaced": func([]byte) []byte { return []byte(`{"sequence":1}`) },
			"cut":      func(b []byte) []byte { return b[:len(b)-1] },
			"first":    func(b []byte) []byte { return append([]byte{b[0] ^ 1}, b[1:]...) },
			"swapped":  func([]byte) []byte { return whole[(at+1)%len(whole)] },
		} {
			entries := slices.Clone(whole)
			entries[at] = damage(bytes.Clone(whole[at]))
			last := at == len(whole)-1
			if name == "replaced" && last {
				continue // whoever has seen the commit knows its digest
			}
			log := logOf(t, entries)
			var bad *ledger.BadEntryError
			if _, err := sequences(log, ledger.Head{}, 6); !errors.As(err, &bad) || bad.Sequence != uint64(at+1) {
				t.Errorf("commit %d %s: %v", at+1, name, err)
			}
			if _, err := sequences(ledger.PassOver(log, []uint64{uint64(at + 1)}), ledger.Head{}, 6); err == nil && !last {
				t.Errorf("commit %d %s is passed over, and all after it with it", at+1, name)
			}
		}
	}
}
