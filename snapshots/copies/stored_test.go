package copies

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func openStore(t *testing.T, dir string) bucket.Store {
	t.Helper()
	return ledgertest.Must(bucket.Open("file://" + dir))
}

// keepOnce has a replica store a copy in a folder.
func (r *replica) keepOnce(dir string, change func(*KeeperConfig)) {
	r.w.t.Helper()
	cfg := KeeperConfig{
		Maker:   Maker{Views: r.views, ReadModels: filepath.Join(r.dir, "readmodel"), Snapshots: r.snaps},
		Targets: []Target{{openStore(r.w.t, dir), func() uint64 { return math.MaxUint64 }}}, Records: 1,
		Every: time.Millisecond, Logger: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	k := ledgertest.Must(Keep(cfg))
	ledgertest.WaitFor(r.w.t, "a stored copy", func() bool { return k.Status().Last == r.views.Checkpoint() },
		func() any { return k.Status() })
	ledgertest.OK(r.w.t, k.Stop())
	if _, err := os.Stat(k.folder()); !errors.Is(err, fs.ErrNotExist) {
		r.w.t.Errorf("%s is left: %v", k.folder(), err)
	}
}

func (w *world) take(into *replica, dir string, change func(*JoinConfig)) (*Copy, error) {
	w.t.Helper()
	return w.join(into, func(cfg *JoinConfig) {
		cfg.Peers, cfg.Stores = nil, []bucket.Store{openStore(w.t, dir)}
		if change != nil {
			change(cfg)
		}
	})
}

// objects lists what a folder holds below a name.
func objects(t *testing.T, dir, below string) (list []string) {
	t.Helper()
	err := openStore(t, dir).List(t.Context(), below, func(o bucket.Object) error {
		list = append(list, filepath.Join(dir, filepath.FromSlash(o.Name)))
		return nil
	})
	ledgertest.OK(t, err)
	return list
}

// TestStored: an empty replica gets from an archive what another one has stored
// there, of the last moment or of an earlier one, and goes on like any other. Files
// that an older copy has are written once; copies that newer ones have replaced are
// removed.
func TestStored(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	have := w.open(t.TempDir())
	defer have.close()
	for _, to := range []int{10, 20, 30, 40} {
		have.fold(to, to-1)
		have.keepOnce(dir, nil)
	}
	if list := objects(t, dir, storedManifests); len(list) != keptStored {
		t.Errorf("of 4 copies these are kept: %q", list)
	}
	sums := make(map[ledger.Digest]bool)
	for _, path := range objects(t, dir, storedManifests) {
		name, _ := parseStoredName(storedManifests + filepath.Base(path))
		m := ledgertest.Must((&storedCopy{store: openStore(t, dir), name: name}).manifest(t.Context()))
		for _, one := range m.Files {
			sums[one.Sum] = true
		}
	}
	if list := objects(t, dir, storedFiles); len(list) != len(sums) {
		t.Errorf("%d files are there, and copies list %d", len(list), len(sums))
	}
	want := digestOf(t, have.views)
	for _, upTo := range []uint64{testCommits, 35} {
		into := w.open(t.TempDir())
		got := ledgertest.Must(w.take(into, dir, func(cfg *JoinConfig) { cfg.UpTo = upTo }))
		if at := min(upTo, 40) / 10 * 10; got.Models.Head.Sequence != at || got.State.Head().Sequence != at-1 {
			t.Errorf("up to %d it is a copy of %d, with a State of %d", upTo, got.Models.Head.Sequence, got.State.Head().Sequence)
		}
		into.close()
		into = w.open(into.dir) // which puts it in its place
		if upTo > 40 && digestOf(t, into.views) != want {
			t.Error("the read models differ")
		}
		into.state = got.State
		into.fold(testCommits, 0)
		into.close()
	}
}

// TestStoredNothing: where no copy is of use, nothing changes, and the error says why.
func TestStoredNothing(t *testing.T) {
	w := newWorld(t)
	have, dir := w.full(30), t.TempDir()
	have.keepOnce(dir, nil)
	for name, one := range map[string]struct {
		dir    string
		change func(*JoinConfig)
		want   error
		text   string
	}{
		"no copy":                {t.TempDir(), nil, ErrNone, ""},
		"newer than the log":     {dir, func(c *JoinConfig) { c.UpTo = testCommits - 1 }, nil, "newer than the log"},
		"everything is here":     {dir, func(c *JoinConfig) { c.From = testCommits }, ErrNotWorth, ""},
		"a replay takes less":    {dir, func(c *JoinConfig) { c.Needed = false }, ErrNotWorth, ""},
		"no room":                {dir, func(c *JoinConfig) { c.Room = func() int64 { return 1 } }, nil, "room for 1 bytes"},
		"another ledger":         {dir, func(c *JoinConfig) { c.Log = otherLog{c.Log} }, errBad, "of a log whose commit"},
		"an archive that is not": {filepath.Join(dir, "away"), nil, bucket.ErrUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.refuses(t, one.want, one.text, func(into *replica) (*Copy, error) { return w.take(into, one.dir, one.change) })
		})
	}
}

// TestStoredDamage: whatever object of the newest copy is lost, cut, flipped, or
// another one's, the older copy is taken.
func TestStoredDamage(t *testing.T) {
	w := newWorld(t)
	have, dir := w.open(t.TempDir()), t.TempDir()
	defer have.close()
	have.fold(20, 19)
	have.keepOnce(dir, nil)
	old := make(map[string]bool)
	for _, path := range objects(t, dir, bucket.Copies) {
		old[path] = true
	}
	have.fold(testCommits, testCommits-1)
	have.keepOnce(dir, nil)
	tried := 0
	for _, path := range objects(t, dir, bucket.Copies) {
		if old[path] {
			continue
		}
		text := ledgertest.ReadFile(t, path)
		if len(text) == 0 {
			continue
		}
		flipped := append([]byte(nil), text...)
		flipped[len(flipped)/2] ^= 4
		for name, bad := range map[string][]byte{
			"lost": nil, "cut": text[:len(text)-1], "flipped": flipped, "longer": append(flipped, 0),
		} {
			ledgertest.OK(t, os.Remove(path))
			if bad != nil {
				ledgertest.OK(t, os.WriteFile(path, bad, 0o600))
			}
			into := w.open(t.TempDir())
			got, err := w.take(into, dir, nil)
			if err != nil || got.Models.Head.Sequence != 20 {
				t.Errorf("%s %s: %+v, %v", filepath.Base(path), name, got, err)
			}
			into.close()
			tried++
			_ = os.Remove(path) // it may be lost already
			ledgertest.OK(t, os.WriteFile(path, text, 0o600))
		}
	}
	if tried < 12 {
		t.Errorf("only %d faults were tried", tried)
	}
	into := w.open(t.TempDir())
	defer into.close()
	if got, err := w.take(into, dir, nil); err != nil || got.Models.Head.Sequence != testCommits {
		t.Errorf("with nothing damaged: %+v, %v", got, err)
	}
}

// TestStoredSigned: a server with the operator's key takes no copy that is not signed
// with it, such as one from another writer of the bucket.
func TestStoredSigned(t *testing.T) {
	w := newWorld(t)
	have := w.full(30)
	signer, keys := ledgertest.Key(t)
	other, _ := ledgertest.Key(t)
	sign := func(with note.Signer) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return note.Sign(&note.Note{Text: string(text)}, with) }
	}
	open := func(signed []byte) ([]byte, error) {
		opened, err := note.Open(signed, keys)
		if err != nil {
			return nil, err
		}
		return []byte(opened.Text), nil
	}
	for name, one := range map[string]struct {
		sign func([]byte) ([]byte, error)
		open func([]byte) ([]byte, error)
		good bool
	}{
		"with the key":            {sign(signer), open, true},
		"not checked":             {sign(signer), nil, true},
		"not signed":              {nil, open, false},
		"with another one's key":  {sign(other), open, false},
		"not signed, not checked": {nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w.t, have.w.t = t, t
			dir := t.TempDir()
			have.keepOnce(dir, func(cfg *KeeperConfig) { cfg.Sign = one.sign })
			into := w.open(t.TempDir())
			defer into.close()
			got, err := w.take(into, dir, func(cfg *JoinConfig) { cfg.Unsign = one.open })
			if one.good != (err == nil) || one.good != (got != nil) || !one.good && !errors.Is(err, errBad) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// lockedStore removes nothing.
type lockedStore struct{ bucket.Store }

var errLocked = errors.New("the object is locked")

// Remove implements bucket.Store.
func (lockedStore) Remove(context.Context, string) error { return errLocked }

// TestStoredStays: copies stay that are newer than what the archive has of the log,
// and the newest that it reaches; and all of them where the store keeps everything.
func TestStoredStays(t *testing.T) {
	w := newWorld(t)
	for name, one := range map[string]struct {
		reached uint64
		locked  bool
		want    int
	}{
		"all are archived":    {testCommits, false, keptStored},
		"half is archived":    {30, false, keptStored + 3},
		"nothing is archived": {0, false, 6},
		"object lock":         {testCommits, true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			dir, have := t.TempDir(), w.open(t.TempDir())
			defer have.close()
			for _, to := range []int{10, 20, 30, 40, 50, 60} {
				have.fold(to, to)
				have.keepOnce(dir, func(cfg *KeeperConfig) {
					cfg.Targets[0].Reached = func() uint64 { return one.reached }
					if one.locked {
						cfg.Targets[0].Store = lockedStore{cfg.Targets[0].Store}
					}
				})
			}
			if list := objects(t, dir, storedManifests); len(list) != one.want {
				t.Errorf("%d copies are there, and not %d", len(list), one.want)
			}
		})
	}
}
