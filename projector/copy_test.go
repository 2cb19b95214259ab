package projector

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestCopyWhileFolding: a copy is of one commit, whatever is folded meanwhile.
func TestCopyWhileFolding(t *testing.T) {
	tr := newTrial(t)
	dir := t.TempDir()
	p := tr.openIn(t, vfs.Default, filepath.Join(dir, "readmodel"))
	defer func() { ledgertest.OK(t, p.Close()) }()
	var folding sync.WaitGroup
	folding.Go(func() { tr.foldTo(t, p, damagedCommits) })
	for i := range 5 {
		copied := filepath.Join(dir, "copies", string(rune('a'+i)))
		at := ledgertest.Must(p.Copy(copied))
		if found, err := Inspected(copied); err != nil || found != at {
			t.Errorf("copied at %+v, and found at %+v, %v", at, found, err)
		}
		if at.Head.Sequence > 0 && at.Head != tr.commits[at.Head.Sequence-1].Head() {
			t.Errorf("no commit is at %+v", at)
		}
	}
	folding.Wait()
}

// TestExchange: read models are exchanged under a Projector, which still tells of damage
// afterwards; if nothing comes in their place there are none, and they can be folded again.
func TestExchange(t *testing.T) {
	tr := newTrial(t)
	source := tr.open(t, vfs.Default)
	defer func() { ledgertest.OK(t, source.Close()) }()
	tr.foldTo(t, source, damagedCommits)
	copied := filepath.Join(t.TempDir(), "copy")
	if _, err := source.Copy(copied); err != nil {
		t.Fatal(err)
	}
	p := tr.open(t, vfs.Default)
	defer func() { ledgertest.OK(t, p.Close()) }()
	tr.foldTo(t, p, 10)
	failed := errors.New("no such luck")
	if err := p.Exchange(func() error { return failed }); !errors.Is(err, failed) || p.Checkpoint().Sequence != 10 {
		t.Errorf("%v; at %d", err, p.Checkpoint().Sequence)
	}
	err := p.Exchange(func() error { return errors.Join(os.RemoveAll(p.Dir()), os.Rename(copied, p.Dir())) })
	if err != nil || tr.digest(t, p) != tr.want || p.Checkpoint() != source.Checkpoint() {
		t.Errorf("%v; at %d", err, p.Checkpoint().Sequence)
	}
	// What it has by now is not folded twice.
	if err := p.Fold(tr.commits[20], tr.changes[20]); err != nil || tr.digest(t, p) != tr.want {
		t.Errorf("folded twice: %v", err)
	}
	p.models.Load().Condemn(errors.New("a test"))
	if tr.digest(t, p) != tr.want || p.starts != 2 {
		t.Errorf("after %d starts: another digest", p.starts)
	}
	if err := p.Exchange(func() error { return os.RemoveAll(p.Dir()) }); err != nil || p.Checkpoint().Sequence != 0 {
		t.Errorf("%v; at %d", err, p.Checkpoint().Sequence)
	}
}

// TestTableThatIsWritten: a table that no version names yet is none, and what is
// wrong with one that counts is found.
func TestTableThatIsWritten(t *testing.T) {
	tr := newTrial(t)
	p := tr.open(t, vfs.Default)
	defer func() { ledgertest.OK(t, p.Close()) }()
	tr.foldTo(t, p, damagedCommits)
	ledgertest.OK(t, p.models.Load().Flush())
	ledgertest.OK(t, os.WriteFile(filepath.Join(p.Dir(), "009999.sst"), []byte("half a table"), 0o600))
	look := func() (damage []error) {
		t.Helper()
		pace := rate.NewLimiter(rate.Inf, 1<<20)
		ledgertest.OK(t, p.CheckFiles(t.Context(), pace, func(err error) { damage = append(damage, err) }, func(int64) {}))
		return damage
	}
	if damage := look(); len(damage) > 0 || p.models.Load().Fault() != nil {
		t.Errorf("%v", damage)
	}
	var levels [][]pebble.SSTableInfo
	err := p.models.Load().Use(func(db *pebble.DB) (err error) {
		levels, err = db.SSTables()
		return err
	})
	ledgertest.OK(t, err)
	for _, tables := range levels {
		for _, table := range tables {
			ledgertest.Flip(t, filepath.Join(p.Dir(), table.BackingSSTNum.String()+".sst"))
		}
	}
	if damage := look(); len(damage) != 1 {
		t.Errorf("damage is not found: %v", damage)
	}
	if tr.digest(t, p) != tr.want {
		t.Error("another digest after the next start")
	}
}
