package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// history returns a log of commits, of which the one with a sequence, and those after it, are
// other ones than usual; 0: none.
func history(t testing.TB, n int, other uint64) (entries [][]byte, head ledger.Head) {
	t.Helper()
	builder, random := ledger.NewCommitBuilder(), rand.New(rand.NewPCG(3, 4))
	for i := range n {
		builder.Begin(head)
		long := make([]string, 60) // what compresses badly
		for k := range long {
			long[k] = fmt.Sprintf("%016x", random.Uint64())
		}
		record := ledger.Record{
			CommandID: ledger.UUID{1, byte(i >> 8), byte(i)}, Command: "CreateTrait", Time: int64(i) + 1, Actor: strings.Join(long, ""),
			Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_TRAIT"}},
		}
		if i == 0 {
			record.Events = []ledger.Event{ledger.LedgerCreated{Ledger: ledger.UUID{7}}}
		}
		if uint64(i+1) == other {
			record.Actor = "another"
		}
		_, _, err := builder.Add(record, 1<<20)
		ledgertest.OK(t, err)
		commit, encoded, err := builder.Seal()
		ledgertest.OK(t, err)
		entries, head = append(entries, encoded), commit.Head()
	}
	return entries, head
}

// copyOf is a copy of entries, of which those that are nil are lost. Reads of one that is far away end there.
func copyOf(name string, entries [][]byte, far bool) *logCopy {
	c := &logCopy{name: name}
	if far {
		c.last = uint64(len(entries))
	}
	c.read = func(_ context.Context, from uint64, yield func(ledger.Entry) error) error {
		for i := int(from) - 1; i < len(entries); i++ {
			switch {
			case entries[i] != nil:
				if err := yield(ledger.Entry{Sequence: uint64(i + 1), Data: bytes.Clone(entries[i])}); err != nil {
					return err
				}
			case far:
				return &chain.BadEntryError{Sequence: uint64(i + 1), Err: ledger.ErrCorrupt}
			}
		}
		return nil
	}
	return c
}

// TestMerge damages copies of logs at random, which hold entries of strangers, too: some entries are
// lost, some are changed. As long as each entry is whole in one of them the merged log is the log, byte for
// byte; otherwise what is missing is named.
func TestMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		whole, head := historyWithStrangers(t, rt)
		survives := make([]bool, len(whole))
		var copies []*logCopy
		for k := range rapid.IntRange(1, 4).Draw(rt, "copies") {
			have := slices.Clone(whole)
			lost := rapid.IntRange(0, 60).Draw(rt, "percent lost")
			for i := range have {
				switch percent := rapid.IntRange(0, 99).Draw(rt, "fate"); {
				case percent >= lost:
					survives[i] = true
				case percent%3 == 0:
					have[i] = []byte("garbage with a right checksum")
				default:
					have[i] = nil
				}
			}
			copies = append(copies, copyOf(fmt.Sprint(k), have, k > 0 && rapid.Bool().Draw(rt, "far")))
		}
		log := &mergedLog{copies: copies, seen: []blocks.Seen{{Head: head, Where: "a mark"}}}
		err := log.measure(t.Context())
		if first := slices.Index(survives, false); first < 0 {
			var got [][]byte
			err = errors.Join(err, log.Read(t.Context(), 1, head.Sequence, func(e ledger.Entry) error {
				got = append(got, bytes.Clone(e.Data))
				return nil
			}))
			if err != nil || log.head != head || !slices.EqualFunc(got, whole, sameCommit) {
				rt.Fatalf("each entry is in a copy, and the merged log has %d of %d: %v", len(got), len(whole), err)
			}
		} else if _, _, bad := ledger.CommitLink(whole[first]); bad == nil && err == nil {
			rt.Fatalf("commit %d is in no copy, and the log is taken for whole", first+1)
		}
	})
}

// sameCommit compares entries. Nothing vouches for those of strangers.
func sameCommit(got, want []byte) bool {
	_, _, err := ledger.CommitLink(want)
	return err != nil || bytes.Equal(got, want)
}

// historyWithStrangers is a log in which other programs have published, before its last commit.
func historyWithStrangers(t testing.TB, rt *rapid.T) (entries [][]byte, head ledger.Head) {
	t.Helper()
	for _, c := range ledgertest.Commits(t, rapid.IntRange(1, 30).Draw(rt, "commits")) {
		if rapid.IntRange(0, 9).Draw(rt, "stranger") == 0 {
			entries = append(entries, []byte("of a stranger"))
		}
		c.Sequence, c.Prev = uint64(len(entries)+1), head.Digest
		data, err := ledger.EncodeCommit(c)
		if err != nil {
			rt.Fatal(err)
		}
		entries, head = append(entries, data), ledger.Head{Sequence: c.Sequence, Digest: ledger.DigestOf(data)}
	}
	return entries, head
}

// TestMissingIsNamed: all sequences that no copy has are named, and a cut before them is taken.
func TestMissingIsNamed(t *testing.T) {
	t.Parallel()
	entries, head := history(t, 20, 0)
	one, two := slices.Clone(entries), slices.Clone(entries)
	for _, i := range []int{3, 4, 5, 9} {
		one[i], two[i] = nil, nil
	}
	one[7], two[12] = nil, nil
	for _, far := range []bool{false, true} {
		log := &mergedLog{copies: []*logCopy{copyOf("one", one[:18], false), copyOf("two", two[:18], far)}}
		log.seen = []blocks.Seen{{Head: head, Where: "the mark"}}
		err := log.measure(t.Context())
		if !errors.Is(err, blocks.ErrDamaged) {
			t.Errorf("far %v: %v", far, err)
		}
		launchtest.Says(t, fmt.Sprint(err), "4 to 6", "10", "19 to 20 (", "the mark knows sequence 20", "--cut-after 3")
		log = &mergedLog{copies: log.copies, to: 3}
		if err := log.measure(t.Context()); err != nil || log.head.Sequence != 3 {
			t.Errorf("cut after 3: %v, %v", log.head, err)
		}
	}
}

// TestFork: two histories are refused with both digests, where both have a commit, where one has only what comes
// later, and where one is far away. One that ends earlier is no other history.
func TestFork(t *testing.T) {
	t.Parallel()
	right, head := history(t, 20, 0)
	wrong, _ := history(t, 20, 8)
	only := func(entries [][]byte, from, to int) [][]byte {
		part := make([][]byte, to)
		copy(part[from:], entries[from:to])
		return part
	}
	digest := func(entries [][]byte, sequence int) string { return ledger.DigestOf(entries[sequence-1]).String()[:8] }
	whole, damaged := copyOf("r", right, false), copyOf("r", only(right, 0, 8), false)
	for _, c := range []struct {
		right, wrong *logCopy
		at           int
		words        string
	}{
		{whole, copyOf("w", wrong, false), 8, "commit 8"},
		{damaged, copyOf("w", only(wrong, 8, 20), false), 8, "w: "},
		{whole, copyOf("w", only(wrong, 12, 13), false), 13, "commit 13"},
		{whole, copyOf("w", wrong[:15], true), 15, "commit 15"},
	} {
		log := &mergedLog{copies: []*logCopy{c.right, c.wrong}}
		if last := c.wrong.last; last > 0 {
			at := ledger.Head{Sequence: last, Digest: ledger.DigestOf(wrong[last-1])}
			log.seen = append(log.seen, blocks.Seen{Head: at, Where: "w"})
		}
		err := log.measure(t.Context())
		launchtest.Says(t, fmt.Sprint(err), c.words, digest(right, c.at), digest(wrong, c.at))
	}
	log := &mergedLog{copies: []*logCopy{copyOf("shorter", right[:5], false), copyOf("whole", right, false)}}
	if err := log.measure(t.Context()); err != nil || log.head != head {
		t.Errorf("%v, %v", log.head, err)
	}
}

// served makes a data folder with the blocks of a log.
func served(t testing.TB, entries [][]byte, head ledger.Head) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files := embedded.Files(filepath.Join(dir, datafolder.Log))
	read := memlog.Of(entries).Read
	ledgertest.OK(t, datafolder.Fill(t.Context(), files, blocks.Import{From: "a test", Last: head}, read, "filling"))
	ledgertest.OK(t, files.EndImport(head))
	return dir
}

func copied(t testing.TB, dir string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "data")
	ledgertest.OK(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func blockOf(dir string) string {
	return filepath.Join(embedded.Files(filepath.Join(dir, datafolder.Log)).Dir(), "msgs", "1.blk")
}

// flip flips a bit of one byte.
func flip(t testing.TB, path string, at int) {
	t.Helper()
	data := []byte(launchtest.Read(t, path))
	data[at%len(data)] ^= 1
	ledgertest.OK(t, os.WriteFile(path, data, 0o600))
}

// whole returns the sequences that are whole in a data folder.
func wholeIn(t testing.TB, dir string, into map[uint64]bool) {
	t.Helper()
	_, err := embedded.Files(filepath.Join(dir, datafolder.Log)).ScanIntact(t.Context(), func(e ledger.Entry) error {
		into[e.Sequence] = true
		return nil
	})
	ledgertest.OK(t, err)
}

// healed checks that a cluster can begin in a folder with a log.
func healed(t testing.TB, dir string, head ledger.Head) {
	t.Helper()
	begin, err := embedded.Files(filepath.Join(dir, datafolder.Log)).Beginning()
	if err != nil || begin == nil || begin.History == nil || *begin.History != head || begin.Ledger != (ledger.UUID{7}) {
		t.Fatalf("it begins with %+v: %v", begin, err)
	}
	if _, err := os.Stat(filepath.Join(dir, repairFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the repair is left: %v", err)
	}
}

// TestHeal flips bits at random places of the blocks of all three servers of a cluster. While each commit is whole in
// one of them, the cluster begins again with the log; otherwise no byte changes.
func TestHeal(t *testing.T) {
	t.Parallel()
	entries, head := history(t, 300, 0)
	base := served(t, entries, head)
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[bool]int{}
	for round := range 8 {
		var dirs []string
		survives := make(map[uint64]bool)
		for range 3 {
			dir := copied(t, base)
			for range 1 << random.IntN(8) {
				flip(t, blockOf(dir), random.Int())
			}
			wholeIn(t, dir, survives)
			dirs = append(dirs, dir)
		}
		before := launchtest.BytesOf(t, dirs[0])
		err := (&Heal{mending{Data: dirs[0], Archive: dirs[1:]}}).Run(t.Context())
		kinds[err == nil]++
		switch {
		case len(survives) == len(entries):
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			healed(t, dirs[0], head)
		case err == nil || launchtest.BytesOf(t, dirs[0]) != before:
			t.Errorf("round %d: %d of %d commits survive, and: %v", round, len(survives), len(entries), err)
		}
	}
	if len(kinds) < 2 {
		t.Errorf("not both kinds came: %v", kinds)
	}
}

// countdown is a context that ends after it was asked so many times: as a kill, because nothing cleans up after it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestKilledWhileItHeals: wherever it is interrupted while the good log takes its place, the next run ends it, for a
// single server and for a cluster, and what was set aside before is among what is set aside.
func TestKilledWhileItHeals(t *testing.T) {
	t.Parallel()
	entries, head := history(t, 40, 0)
	whole := served(t, entries, head)
	broken := copied(t, whole)
	flip(t, blockOf(broken), 3000)
	earlier := filepath.Join(broken, datafolder.Aside+"-1", "jetstream")
	ledgertest.OK(t, os.CopyFS(earlier, os.DirFS(filepath.Join(broken, datafolder.Log, "jetstream"))))
	for _, build := range []func(context.Context, *datafolder.Folder, *mergedLog) error{buildLog, buildBeginning} {
		kills := 0
		for done := false; !done; kills++ {
			dir := copied(t, broken)
			d, err := datafolder.Open(dir)
			ledgertest.OK(t, err)
			mends := &mending{Archive: []string{copied(t, whole)}}
			copies, err := mends.copies(t.Context(), d)
			ledgertest.OK(t, err)
			log := &mergedLog{copies: copies.list, seen: copies.seen}
			ledgertest.OK(t, errors.Join(log.measure(t.Context()), build(t.Context(), d, log), copies.close()))
			if done, err = finishRepair(&countdown{t.Context(), kills}, d); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			ledgertest.OK(t, d.Close())
			if err := (&Heal{mending{Data: dir, Archive: []string{whole}}}).Run(t.Context()); err != nil {
				t.Fatalf("after a kill at step %d: %v", kills, err)
			}
			files := embedded.Files(filepath.Join(dir, datafolder.Log))
			verdict, err := files.Judge(t.Context(), blocks.JudgeOptions{})
			isLog := err == nil && verdict.Report != nil && verdict.Last == head
			begins := err == nil && verdict.Begin != nil && *verdict.Begin.History == head
			if !isLog && !begins {
				t.Fatalf("after a kill at step %d: %+v, %v", kills, verdict, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, datafolder.Aside+"-1")); err != nil || len(left) > 0 {
				t.Errorf("after a kill at step %d what was set aside before is where it was", kills)
			}
		}
		if kills < 8 {
			t.Errorf("only %d steps", kills)
		}
	}
}

// TestWhatIsKnownIsNotForgotten: a healed log that lacks a commit that another server's folder knows is refused, unless
// it is cut, and a damaged file of an export yields what is sure to be whole.
func TestWhatIsKnownIsNotForgotten(t *testing.T) {
	t.Parallel()
	entries, head := history(t, 600, 0)
	whole := served(t, entries, head)
	short, at500 := history(t, 500, 0)
	third, other := served(t, short, at500), t.TempDir()
	mark := blocks.HighWaterPath(filepath.Join(other, datafolder.Log))
	ledgertest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(mark), 0o750), blocks.WriteHighWater(mark, head)))
	ledgertest.OK(t, os.CopyFS(filepath.Join(other, datafolder.Aside+"-9"), os.DirFS(filepath.Join(third, datafolder.Log))))
	before := launchtest.BytesOf(t, third)
	for after, says := range map[uint64]string{0: "501 to 600", 501: "the copies end with 500", 600: "501 to 600"} {
		err := (&Heal{mending{Data: third, Archive: []string{other}, CutAfter: after}}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) || launchtest.BytesOf(t, third) != before {
			t.Fatalf("after %d: %v", after, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	ledgertest.OK(t, (&Export{sourceFlags: sourceFlags{Data: whole}, From: 1, File: file}).Run(t.Context()))
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, data[:len(data)*9/10], 0o600)
	}
	ledgertest.OK(t, err)
	ledgertest.OK(t, (&Heal{mending{Data: third, Archive: []string{other}, CutAfter: 500}}).Run(t.Context()))
	healed(t, third, at500)
	// The end is in a copy that lacks the rest, and the rest in a damaged file.
	rewritten, err := os.ReadFile(blockOf(whole))
	if err == nil {
		clear(rewritten[:len(rewritten)*8/10])
		err = os.WriteFile(blockOf(whole), rewritten, 0o600)
	}
	ledgertest.OK(t, err)
	empty := t.TempDir()
	ledgertest.OK(t, (&Heal{mending{Data: empty, Archive: []string{file, whole}}}).Run(t.Context()))
	healed(t, empty, head)
}
