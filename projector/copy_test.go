package projector

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger"
)

// TestCopyWhileFolding: a copy is of one commit, whatever is folded meanwhile.
func TestCopyWhileFolding(t *testing.T) {
	tr := newTrial(t)
	dir := t.TempDir()
	p, err := Open(filepath.Join(dir, "readmodel"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close(t, p)
	var folding sync.WaitGroup
	folding.Go(func() { tr.foldTo(t, p, damagedCommits) })
	for i := range 5 {
		copied := filepath.Join(dir, "copies", string(rune('a'+i)))
		at, err := p.Copy(copied)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := Inspected(copied); err != nil || found != at {
			t.Errorf("copied at %+v, and found at %+v, %v", at, found, err)
		}
		if at.Head.Sequence > 0 && at.Head != tr.commits[at.Head.Sequence-1].Head() {
			t.Errorf("no commit is at %+v", at)
		}
	}
	folding.Wait()
}

// TestExchange: read models are exchanged under a Projector that heals, and
// still heals afterwards; if nothing comes in their place there are none, and
// they can be folded again.
func TestExchange(t *testing.T) {
	tr := newTrial(t)
	source, err := Open(filepath.Join(t.TempDir(), "readmodel"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close(t, source)
	tr.foldTo(t, source, damagedCommits)
	copied := filepath.Join(t.TempDir(), "copy")
	if _, err := source.Copy(copied); err != nil {
		t.Fatal(err)
	}
	p := tr.open(t, vfs.Default)
	defer tr.close(t, p)
	tr.foldTo(t, p, 10)
	failed := errors.New("no such luck")
	if err := p.Exchange(func() error { return failed }); !errors.Is(err, failed) || p.Checkpoint().Sequence != 10 {
		t.Errorf("%v; at %d", err, p.Checkpoint().Sequence)
	}
	err = p.Exchange(func() error { return errors.Join(os.RemoveAll(p.Dir()), os.Rename(copied, p.Dir())) })
	if err != nil || tr.digest(t, p) != tr.want || p.HighWater() != source.Checkpoint() {
		t.Errorf("%v; at %d, mark %d", err, p.Checkpoint().Sequence, p.HighWater().Sequence)
	}
	// What it has by now is not folded twice.
	if err := p.Fold(tr.commits[20], tr.changes[20]); err != nil || tr.digest(t, p) != tr.want {
		t.Errorf("folded twice: %v", err)
	}
	p.models.Load().condemn(errors.New("a test"))
	if tr.digest(t, p) != tr.want {
		t.Error("it has not healed")
	}
	if err := p.Exchange(func() error { return os.RemoveAll(p.Dir()) }); err != nil || p.Checkpoint().Sequence != 0 {
		t.Errorf("%v; at %d", err, p.Checkpoint().Sequence)
	}
}

// TestRefill: damaged read models are filled by another replica, from before or
// after where they were, or from the log if that is of no use.
func TestRefill(t *testing.T) {
	tr := newTrial(t)
	const at = 30
	states := map[int]*ledger.State{}
	copies := map[int]string{}
	source, err := Open(filepath.Join(t.TempDir(), "readmodel"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close(t, source)
	state, dir := ledger.NewState(), t.TempDir()
	for _, to := range []int{10, damagedCommits} {
		tr.foldTo(t, source, uint64(to))
		for _, c := range tr.commits[state.Head().Sequence:to] {
			if _, err := state.Fold(c); err != nil {
				t.Fatal(err)
			}
		}
		states[to], copies[to] = state.Fork(), filepath.Join(dir, string(rune('a'+to)))
		if _, err := source.Copy(copies[to]); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		from   int
		err    error
		filled bool
	}{
		"behind": {from: 10, filled: true}, "ahead": {from: damagedCommits, filled: true},
		"none": {}, "an error": {err: errors.New("gone")},
	} {
		t.Run(name, func(t *testing.T) {
			p := tr.open(t, vfs.Default)
			defer tr.close(t, p)
			asked := 0
			p.RefillFrom(func(context.Context) (*ledger.State, error) {
				asked++
				if c.from == 0 {
					return nil, c.err
				}
				return states[c.from].Fork(), os.CopyFS(p.Dir(), os.DirFS(copies[c.from]))
			})
			tr.foldTo(t, p, at)
			p.models.Load().condemn(errors.New("a test"))
			tr.digest(t, p) // waits
			if want := uint64(max(at, c.from)); p.Checkpoint().Sequence != want || p.HighWater().Sequence != want || asked != 1 {
				t.Errorf("at %d, mark %d, asked %d times", p.Checkpoint().Sequence, p.HighWater().Sequence, asked)
			}
			tr.foldTo(t, p, damagedCommits)
			if tr.digest(t, p) != tr.want {
				t.Error("another digest")
			}
		})
	}
}

// TestTableThatIsWritten: a table that no version names yet is none, and what is
// wrong with one that counts is found.
func TestTableThatIsWritten(t *testing.T) {
	tr := newTrial(t)
	p := tr.open(t, vfs.Default)
	defer tr.close(t, p)
	tr.foldTo(t, p, damagedCommits)
	if err := p.models.Load().flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Dir(), "009999.sst"), []byte("half a table"), 0o600); err != nil {
		t.Fatal(err)
	}
	look := func() (damage []error) {
		t.Helper()
		pace := rate.NewLimiter(rate.Inf, paceBytes)
		err := p.CheckFiles(t.Context(), pace, func(err error) { damage = append(damage, err) }, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		return damage
	}
	if damage := look(); len(damage) > 0 || p.models.Load().fault() != nil {
		t.Errorf("%v", damage)
	}
	levels, err := p.models.Load().db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, tables := range levels {
		for _, table := range tables {
			path := filepath.Join(p.Dir(), table.BackingSSTNum.String()+tableSuffix)
			content, err := os.ReadFile(path)
			if err == nil {
				content[len(content)/2] ^= 1
				err = os.WriteFile(path, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if damage := look(); len(damage) != 1 {
		t.Errorf("damage is not found: %v", damage)
	}
	if tr.digest(t, p) != tr.want {
		t.Error("it has not healed")
	}
}
