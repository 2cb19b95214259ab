package archive_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// faulty is a store in front of another one.
type faulty struct {
	bucket.Store
	call func(what, name string) (done bool, told error) // whether a call is carried out, and what is told of it
	read func(name string, text []byte) []byte           // changes what is read; nil: nothing
}

func (f *faulty) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	done, told := f.call("create", name)
	if done {
		told = cmp.Or(told, f.Store.Create(ctx, name, contents, size))
	}
	return told
}

func (f *faulty) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if _, told := f.call("open", name); told != nil {
		return nil, told
	}
	body, err := f.Store.Open(ctx, name)
	if err != nil || f.read == nil {
		return body, err
	}
	text, err := io.ReadAll(body)
	return io.NopCloser(bytes.NewReader(f.read(name, text))), errors.Join(err, body.Close())
}

func (f *faulty) List(ctx context.Context, prefix string, yield func(bucket.Object) error) error {
	if _, told := f.call("list", prefix); told != nil {
		return told
	}
	return f.Store.List(ctx, prefix, yield)
}

// trouble is what a store and the network before it do.
type trouble struct {
	mu     sync.Mutex
	fault  string // empty: none; guarded by mu
	harmed int    // calls; guarded by mu
	other  []byte // what was last read of a part; guarded by mu
}

// before opens the archive in a folder, with the trouble in front of it.
func (f *trouble) before(t *testing.T, dir string) *archive.Archive {
	t.Helper()
	store := ledgertest.Must(bucket.Open("file://" + dir))
	return archive.Open(&faulty{store, f.call, f.read})
}

// be makes a fault; empty: none. It returns how many calls the one before has harmed.
func (f *trouble) be(fault string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.harmed
	f.fault, f.harmed = fault, 0
	return before
}

func (f *trouble) call(what, name string) (done bool, told error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fault == "away", f.fault == "full" && what == "create":
		told = bucket.ErrUnavailable
	case f.fault == "loses" && what == "open" && strings.HasPrefix(name, "parts/"):
		told = bucket.ErrNotFound
	case f.fault == "loses the answer" && what == "create":
		done, told = true, bucket.ErrUnavailable
	default:
		return true, nil
	}
	f.harmed++
	return done, told
}

func (f *trouble) read(name string, text []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !strings.HasPrefix(name, "parts/") {
		return text
	}
	f.harmed++
	switch {
	case f.fault == "flips":
		text[len(text)/2] ^= 1
	case f.fault == "other bytes" && f.other != nil:
		text = f.other
	case f.fault == "cuts":
		text = text[:len(text)/2]
	default:
		f.harmed--
		f.other = text
	}
	return text
}

// TestFaultyStore: whatever a store does, nothing counts as archived that is not
// there and good; when the fault has passed everything is archived, and the
// archive verifies.
func TestFaultyStore(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"away", "full", "loses", "loses the answer", "flips", "other bytes", "cuts"} {
		t.Run(fault, func(t *testing.T) {
			var f trouble
			w, dir := newWorld(t, 40), t.TempDir()
			first := w.config(f.before(t, dir))
			first.Head = func() ledger.Head { return w.heads[19] }
			w.archive(first, 20)

			f.be(fault)
			a := archive.Start(w.config(f.before(t, dir)))
			var during archive.Status
			ledgertest.WaitFor(t, "an archive or a failure", func() bool {
				during = a.Status()[0]
				return during.Failures > 0 || during.Verified.Sequence == 40
			}, func() any { return during })
			if harmed := f.be(""); harmed == 0 {
				t.Errorf("no call met the fault: %+v", during)
			}
			if reached := w.verified(dir); reached < during.Verified.Sequence {
				t.Errorf("%d counted as archived, and %d are there", during.Verified.Sequence, reached)
			}
			a.Stop()
			w.archived(dir, 40)
			w.holds(in(t, dir), 40)
		})
	}
}

// verified returns up to where the archive in a folder verifies.
func (w *world) verified(dir string) uint64 {
	known, _ := w.verify(in(w.t, dir), nil) // how far it is good is asked, not why it ends
	return known.Sequence
}

var errCutOff = errors.New("cut off")

// cutOff lets so many calls through, as of a process that is killed then: the last one is carried out, or is not, and
// is not acknowledged.
func cutOff(left int, after bool) func(what, name string) (bool, error) {
	var mu sync.Mutex
	return func(string, string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if left--; left > 0 {
			return true, nil
		}
		return left == 0 && after, errCutOff
	}
}

// TestKilledAtEachStep: an Archiver that ends at any step, before or after it was
// done, leaves what the next one goes on with: each part is there once.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	for _, after := range []bool{false, true} {
		for steps, whole := 1, false; !whole; steps++ {
			dir := t.TempDir()
			store := ledgertest.Must(bucket.Open("file://" + dir))
			killed := &faulty{Store: store, call: cutOff(steps, after)}
			a := archive.Start(w.config(archive.Open(killed)))
			var s archive.Status
			ledgertest.WaitFor(t, fmt.Sprint("the end after steps: ", steps), func() bool {
				s = a.Status()[0]
				return s.Failures > 0 || s.Verified.Sequence == 30
			}, func() any { return s })
			a.Stop()
			whole = s.Failures == 0
			if reached := w.verified(dir); reached < s.Verified.Sequence {
				t.Errorf("%d steps: %d counted, and %d are there", steps, s.Verified.Sequence, reached)
			}
			w.archived(dir, 30)
			if list := files(t, dir); len(list) != 3+1 {
				t.Errorf("%d steps: %d objects", steps, len(list))
			}
			w.holds(in(t, dir), 30)
			if whole && steps < 10 {
				t.Errorf("all was done in %d steps", steps)
			}
		}
	}
}

// TestOneAway: an archive that is away holds up no other, and catches up.
func TestOneAway(t *testing.T) {
	t.Parallel()
	var f trouble
	w := newWorld(t, 100)
	f.be("away")
	a := archive.Start(w.config(in(t, t.TempDir()), f.before(t, t.TempDir())))
	defer a.Stop()
	reach := func(what string, so func([]archive.Status) bool) {
		t.Helper()
		ledgertest.WaitFor(t, what, func() bool { return so(a.Status()) }, func() any { return a.Status() })
	}
	reach("the one that is here", func(s []archive.Status) bool { return s[0].Verified.Sequence == 100 && s[1].Failures > 0 })
	if s := a.Status()[1]; s.Verified.Sequence > 0 || s.Commits != 100 || s.Fault == "" {
		t.Errorf("%+v", s)
	}
	f.be("")
	reach("the one that was away", func(s []archive.Status) bool { return s[1].Verified.Sequence == 100 && s[1].Fault == "" })
}
