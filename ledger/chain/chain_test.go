package chain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// chained makes commits that leave out some sequences, like those of a writer that has skipped foreign entries.
func chained(t *testing.T, n int, without ...uint64) (commits [][]byte) {
	t.Helper()
	var prev ledger.Digest
	sequence := uint64(0)
	for _, c := range ledgertest.Commits(t, n) {
		for sequence++; slices.Contains(without, sequence); sequence++ {
			commits = append(commits, nil)
		}
		c.Sequence, c.Prev = sequence, prev
		data := ledgertest.Encoded(t, c)
		prev = ledger.DigestOf(data)
		commits = append(commits, data)
	}
	return commits
}

func sequences(log ledger.Log, prev ledger.Head, to uint64) (list []uint64, err error) {
	err = chain.Read(context.Background(), log, prev, to, func(c *ledger.Commit) error {
		list = append(list, c.Sequence)
		return nil
	})
	return list, err
}

// walk feeds a log's entries to a Chain, by Next or by NextLink, and returns the commits, and the final error.
func walk(entries [][]byte, link bool) (list []uint64, head ledger.Head, err error) {
	links := chain.New(ledger.Head{})
	for i, data := range entries {
		entry := ledger.Entry{Sequence: uint64(i + 1), Data: data}
		isCommit := false
		if link {
			isCommit, err = links.NextLink(entry)
		} else {
			var commit *ledger.Commit
			commit, err = links.Next(entry)
			isCommit = commit != nil
		}
		if isCommit {
			list = append(list, entry.Sequence)
		}
		if err != nil {
			return list, links.Head(), err
		}
	}
	return list, links.Head(), links.End()
}

// TestLinksAgree damages logs at random. A reader that looks only at the links of commits takes the same entries for
// commits as one that decodes them, unless the damage is inside a commit. Both end in the same place.
func TestLinksAgree(t *testing.T) {
	t.Parallel()
	whole := chained(t, 8)
	foreign := [][]byte{[]byte("hello"), {}, []byte("{}"), whole[2], whole[5]}
	rapid.Check(t, func(rt *rapid.T) {
		var entries [][]byte
		prev := ledger.Digest{}
		for _, c := range ledgertest.Commits(t, 8) {
			for range rapid.IntRange(0, 2).Draw(rt, "foreign entries") {
				entries = append(entries, rapid.SampledFrom(foreign).Draw(rt, "foreign"))
			}
			c.Sequence, c.Prev = uint64(len(entries)+1), prev
			data := ledgertest.Encoded(t, c)
			prev = ledger.DigestOf(data)
			entries = append(entries, data)
		}
		if rapid.Bool().Draw(rt, "one is lost") {
			entries[rapid.IntRange(0, len(entries)-1).Draw(rt, "which")] = []byte("lost")
		}
		read, readTo, readErr := walk(entries, false)
		linked, linkedTo, linkErr := walk(entries, true)
		if !slices.Equal(read, linked) || readTo != linkedTo || fmt.Sprint(readErr) != fmt.Sprint(linkErr) {
			rt.Errorf("read: %v, %v, %v; by their links: %v, %v, %v", read, readTo, readErr, linked, linkedTo, linkErr)
		}
	})
}

// TestLinksSkipForgeries: entries that have a right link and cannot be decoded are no
// commits to any reader, once a commit was appended after them that holds the digest of
// the one before. Those that can be decoded are commits, and what skips them is damage.
func TestLinksSkipForgeries(t *testing.T) {
	t.Parallel()
	for _, places := range [][]uint64{{1}, {3}, {3, 4}, {1, 2, 3}, {2, 4, 5}} {
		entries := chained(t, 5, places...)
		readable := slices.Clone(entries)
		var last *ledger.Commit
		for i, data := range entries {
			if data != nil {
				last, _ = ledger.DecodeCommit(data)
				continue
			}
			forged := *ledgertest.Commits(t, 1)[0]
			forged.Sequence = uint64(i + 1)
			if last != nil {
				forged.Prev = ledger.DigestOf(entries[last.Sequence-1])
			}
			data := ledgertest.Encoded(t, &forged)
			entries[i], readable[i] = data[:len(data)-1], data
		}
		list, head, err := walk(entries, false)
		if err != nil || len(list) != 5 {
			t.Fatalf("forged at %d, read: %v, %v", places, list, err)
		}
		if _, linked, err := walk(entries, true); err != nil || linked != head {
			t.Errorf("forged at %d, by links: %v, %v, not %v", places, linked, err, head)
		}
		for _, link := range []bool{false, true} {
			list, head, err := walk(readable, link)
			var bad *chain.BadEntryError
			if !errors.As(err, &bad) || !slices.Contains(list, places[0]) {
				t.Errorf("a commit at %d, by links %t: %v, %v, %v", places, link, list, head, err)
			}
		}
	}
}

// TestRunOfOthers: commits that follow one another, and not the last commit, are not taken at once.
func TestRunOfOthers(t *testing.T) {
	links := chain.New(ledger.Head{Sequence: 3, Digest: ledger.Digest{3}})
	if links.NextRun(ledger.Digest{1}, ledger.Head{Sequence: 5}) || links.Head().Sequence != 3 {
		t.Errorf("%+v", links.Head())
	}
}

// TestEndlessDoubt: well-formed commits that do not follow are damage before all
// of them are read, however many there are.
func TestEndlessDoubt(t *testing.T) {
	t.Parallel()
	entries := chained(t, 70)
	entries[1] = []byte("lost")
	list, _, err := walk(entries[:65], true)
	if len(list) != 1 || err == nil {
		t.Errorf("64 doubtful entries, and the end: %v, %v", list, err)
	}
	links := chain.New(ledger.Head{})
	for i, data := range entries {
		_, err := links.NextLink(ledger.Entry{Sequence: uint64(i + 1), Data: data})
		var bad *chain.BadEntryError
		switch {
		case i < 66 && err != nil:
			t.Fatalf("entry %d: %v", i+1, err)
		case i == 66:
			if !errors.As(err, &bad) || bad.Sequence != 2 || !strings.Contains(err.Error(), "log entry 2: ") {
				t.Errorf("entry %d: %v", i+1, err)
			}
		}
	}
}

var errRead = errors.New("the log cannot be read")

// failing is a log that cannot be read from a sequence on; 0: nor its end be known.
func failing(entries [][]byte, from uint64) *memlog.Log {
	log := memlog.Of(entries)
	log.Away = func(_ context.Context, to uint64) error {
		if to < from {
			return nil
		}
		return errRead
	}
	return log
}

// TestUnsettled: entries that only later entries can settle are an error if those
// cannot be read, or do not settle them.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	entries := chained(t, 4, 3)
	entries[2] = make([]byte, 10) // foreign, and not unlike what a disk leaves
	if got, err := sequences(memlog.Of(entries), ledger.Head{}, 3); err != nil || len(got) != 2 {
		t.Errorf("a commit follows: %v, %v", got, err)
	}
	if _, err := sequences(failing(entries, 4), ledger.Head{}, 3); !errors.Is(err, errRead) {
		t.Errorf("what follows cannot be read: %v", err)
	}
	var bad *chain.BadEntryError
	links := chain.New(ledger.Head{})
	if _, err := sequences(failing(entries, 0), ledger.Head{}, 3); !errors.Is(err, errRead) {
		t.Errorf("nothing can be read: %v", err)
	}
	for i, data := range entries[:3] {
		ledgertest.Must(links.Next(ledger.Entry{Sequence: uint64(i + 1), Data: data}))
	}
	if err := links.End(); !errors.As(err, &bad) || bad.Sequence != 3 || !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("nothing follows: %v", err)
	}
	entries[3], entries[4] = []byte("{}"), make([]byte, 10)
	if _, err := sequences(memlog.Of(entries), ledger.Head{}, 3); !errors.As(err, &bad) || bad.Sequence != 3 {
		t.Errorf("no commit follows: %v", err)
	}
}

// TestHeadBefore finds the commit before a sequence, past foreign entries.
func TestHeadBefore(t *testing.T) {
	t.Parallel()
	entries := chained(t, 4, 3)
	entries[2] = []byte("{}")
	log := memlog.Of(entries)
	for before, want := range map[uint64]uint64{1: 0, 2: 1, 3: 2, 4: 2, 5: 4, 6: 5} {
		head, err := chain.HeadBefore(context.Background(), log, before)
		if err != nil || head.Sequence != want || want > 0 && head.Digest != ledger.DigestOf(entries[want-1]) {
			t.Errorf("before %d: %v, %v; want %d", before, head, err, want)
		}
	}
	if _, err := chain.HeadBefore(context.Background(), failing(entries, 2), 4); !errors.Is(err, errRead) {
		t.Error(err)
	}
}

// again returns a commit as it is decided again a moment later.
func again(t *testing.T, data []byte) []byte {
	t.Helper()
	c, err := ledger.DecodeCommit(data)
	ledgertest.OK(t, err)
	for i := range c.Records {
		c.Records[i].Time++
	}
	data = ledgertest.Must(ledger.EncodeCommit(c))
	return data
}

// TestForeignEntries: a foreign entry is skipped if the next commit proves it, or if it resembles nothing that the
// writer appends, or is what the writer has appended for the place before.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	copied := chained(t, 6)
	foreign := map[string][]byte{
		"a reply": []byte(
			`{"sequence":1,"result":[]}`,
		), "text": []byte("hello"), "a commit of this log": copied[1], "an older commit": copied[0], "a commit's place": copied[3],
		"what was appended for the place before": again(t, copied[1]),
		"half a commit":                          copied[3][:len(copied[3])/2], "zeros": make([]byte, 100), "nothing": {},
		"four fields": {0x94, 1, 2, 3, 4},
	}
	alone := map[string]bool{"a reply": true, "text": true, "what was appended for the place before": true}
	for name, data := range foreign {
		entries := chained(t, 5, 3, 4)
		entries[2], entries[3] = data, []byte("{}")
		if got, err := sequences(memlog.Of(entries), ledger.Head{}, 7); err != nil ||
			!slices.Equal(got, []uint64{1, 2, 5, 6, 7}) {
			t.Errorf("%s in the middle: %v, %v", name, got, err)
		}
		if got, err := sequences(memlog.Of(entries), ledger.Head{}, 3); err != nil || len(got) != 2 {
			t.Errorf("%s, read up to it: %v, %v", name, got, err)
		}
		end := memlog.Of(entries[:4])
		got, err := sequences(end, ledger.Head{}, 4)
		var bad *chain.BadEntryError
		if (err == nil) != alone[name] || err != nil && (!errors.As(err, &bad) || bad.Sequence != 3) || len(got) != 2 {
			t.Errorf("%s at the end: %v, %v", name, got, err)
		}
	}
}

// TestDamageIsNotForeign: a damaged commit is never skipped, however it was damaged.
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
				continue // a reader that has seen the commit knows its digest
			}
			log := memlog.Of(entries)
			var bad *chain.BadEntryError
			if _, err := sequences(log, ledger.Head{}, 6); !errors.As(err, &bad) || bad.Sequence != uint64(at+1) {
				t.Errorf("commit %d %s: %v", at+1, name, err)
			}
		}
	}
}
