package copies

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

var quiet = slog.New(slog.DiscardHandler)

const (
	testCommits = 60
	// testWait is for offers, of replicas in this process.
	testWait = 100 * time.Millisecond
)

// world is a NATS server, and a log with its commits.
type world struct {
	t       *testing.T
	ns      *embedded.Server
	log     *memlog.Log
	commits []*ledger.Commit
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ns, err := embedded.Start(t.Context(), embedded.Config{StoreDir: t.TempDir(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Shutdown)
	w := &world{t: t, ns: ns, log: &memlog.Log{}, commits: ledgertest.Commits(t, testCommits)}
	for _, c := range w.commits {
		encoded, err := ledger.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		w.log.Append(c.Sequence, encoded, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) connect() *nats.Conn {
	w.t.Helper()
	nc, err := w.ns.ConnectReplica()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	return nc
}

// replica is State and read models in a folder.
type replica struct {
	w     *world
	dir   string
	views *projector.Projector
	snaps *snapshots.Store
	state *ledger.State
}

// open opens a folder's read models and snapshots.
func (w *world) open(dir string) *replica {
	w.t.Helper()
	r := &replica{w: w, dir: dir, state: ledger.NewState()}
	if err := os.MkdirAll(filepath.Join(dir, "snapshots"), 0o750); err != nil {
		w.t.Fatal(err)
	}
	if err := r.folder().Finish(); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if r.views, err = projector.Open(filepath.Join(dir, "readmodel"), quiet); err != nil {
		w.t.Fatal(err)
	}
	if r.snaps, err = snapshots.Open(filepath.Join(dir, "snapshots"), quiet); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (r *replica) close() {
	r.w.t.Helper()
	if err := r.views.Close(); err != nil {
		r.w.t.Error(err)
	}
}

func (r *replica) folder() Folder {
	models := filepath.Join(r.dir, "readmodel")
	return Folder{ReadModels: models, Models: projector.FilesIn(models), Snapshots: filepath.Join(r.dir, "snapshots")}
}

// fold folds the log up to a sequence, and saves a snapshot at one.
func (r *replica) fold(to, snapshotAt int) {
	r.w.t.Helper()
	for _, c := range r.w.commits[r.state.Head().Sequence:to] {
		changes, err := r.state.Fold(c)
		if err == nil {
			err = r.views.Fold(c, changes)
		}
		if err == nil && int(c.Sequence) == snapshotAt {
			err = r.snaps.Save(r.state.Fork())
		}
		if err != nil {
			r.w.t.Fatal(err)
		}
	}
}

// paceFunc is a Pace.
type paceFunc func(ctx context.Context, n int) error

// WaitN implements Pace.
func (f paceFunc) WaitN(ctx context.Context, n int) error { return f(ctx, n) }

var freely = paceFunc(func(context.Context, int) error { return nil })

// serve has a replica give copies.
func (r *replica) serve(name string, change func(*ServerConfig)) *Server {
	r.w.t.Helper()
	cfg := ServerConfig{
		Name: name, Instance: commands.NewID(), Conn: r.w.connect(), Views: r.views, ReadModels: filepath.Join(r.dir, "readmodel"),
		Snapshots: r.snaps, Fork: func(context.Context) (*ledger.State, error) { return r.state.Fork(), nil },
		Leads: func() bool { return false }, Pace: freely, Logger: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := Serve(cfg)
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.w.t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			r.w.t.Error(err)
		}
	})
	return s
}

// full is a replica that has folded all of the log, with a snapshot on the way.
func (w *world) full(snapshotAt int) *replica {
	w.t.Helper()
	r := w.open(w.t.TempDir())
	w.t.Cleanup(r.close)
	r.fold(testCommits, snapshotAt)
	return r
}

func (w *world) join(into *replica, change func(*JoinConfig)) (*Copy, error) {
	w.t.Helper()
	cfg := JoinConfig{Conn: w.connect(), Log: w.log, Folder: into.folder(), Logger: quiet, always: true, wait: testWait}
	if change != nil {
		change(&cfg)
	}
	return Join(w.t.Context(), cfg)
}

func digestOf(t *testing.T, p *projector.Projector) ledger.Digest {
	t.Helper()
	sum, err := p.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestJoin: an empty replica, and one that lags, get what another one has, with
// the State of its newest snapshot, or one that was made for it; and go on from
// there like any other. Nothing is left of the way it went.
func TestJoin(t *testing.T) {
	w := newWorld(t)
	for name, snapshotAt := range map[string]int{"with a snapshot": testCommits - 10, "without": 0} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			have := w.full(snapshotAt)
			serving := have.serve("a", nil)
			want := digestOf(t, have.views)
			for _, at := range []int{0, 20} {
				into := w.open(t.TempDir())
				into.fold(at, at/2)
				var (
					mu   sync.Mutex
					told Progress
				)
				got, err := w.join(into, func(cfg *JoinConfig) {
					cfg.Tell = func(p Progress) {
						mu.Lock()
						defer mu.Unlock()
						told = p
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if got.Models.Head != have.state.Head() || got.Models.Records != have.views.Position().Records || got.From != "a" {
					t.Errorf("%+v", got)
				}
				if told.Of != got.Bytes || told.From != "a" || got.Bytes == 0 {
					t.Errorf("told of %+v; it has %d bytes", told, got.Bytes)
				}
				if err := into.views.Exchange(into.folder().Finish); err != nil {
					t.Fatal(err)
				}
				if got := digestOf(t, into.views); got != want {
					t.Errorf("from %d: read models have digest %.8s, and not %.8s", at, got, want)
				}
				state, found, err := into.snaps.Load(uint64(testCommits))
				if err != nil || !found || state.Head() != got.State.Head() ||
					snapshotAt > 0 && state.Head().Sequence != uint64(snapshotAt) {
					t.Errorf("a snapshot: %v, %v", found, err)
				}
				into.close()
				into = w.open(into.dir)
				if got := digestOf(t, into.views); got != want || into.views.HighWater() != have.state.Head() {
					t.Errorf("opened again, read models have digest %.8s, and a mark at %d", got, into.views.HighWater().Sequence)
				}
				into.close()
				nothingLeft(t, into)
			}
			waitUntil(t, func() bool { return len(filesIn(t, serving.folder())) == 0 })
		})
	}
}

func waitUntil(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to be so")
		}
	}
}

// filesIn are the files under a folder.
func filesIn(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func nothingLeft(t *testing.T, r *replica) {
	t.Helper()
	if _, err := os.Stat(r.folder().path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v, %v", filesIn(t, r.folder().path()), err)
	}
}

// TestBadCopies: what is not what the log gives, or not whole, or of another
// release, is not taken; nothing has changed then, and another replica is asked.
func TestBadCopies(t *testing.T) {
	flip := func(t *testing.T, path string) {
		t.Helper()
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/2] ^= 1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// onParts does something to the files of a copy before its n-th part is sent.
	onParts := func(n int32, do func(copy string)) func(*ServerConfig) {
		return func(cfg *ServerConfig) {
			var parts atomic.Int32
			cfg.Pace = paceFunc(func(context.Context, int) error {
				if parts.Add(1) == n {
					do(filepath.Join(cfg.ReadModels, "copies"))
				}
				return nil
			})
		}
	}
	find := func(t *testing.T, dir, suffix string) string {
		t.Helper()
		for _, path := range filesIn(t, dir) {
			if info, err := os.Stat(path); err == nil && info.Size() > 0 && strings.HasSuffix(path, suffix) {
				return path
			}
		}
		t.Fatalf("no %s in %s", suffix, dir)
		return ""
	}
	for _, c := range []struct {
		name string
		// spoil makes a copy bad.
		spoil func(t *testing.T, have *replica) func(*ServerConfig)
		want  error
		// passes: it is bad once.
		passes bool
		// log is what the one who joins takes for the log of both.
		log func(ledger.Log) ledger.Log
	}{
		{name: "of another log", want: errBad, log: func(log ledger.Log) ledger.Log { return otherLog{log} },
			spoil: func(*testing.T, *replica) func(*ServerConfig) { return nil }},
		{name: "a State of another log", want: errBad, spoil: func(*testing.T, *replica) func(*ServerConfig) {
			return func(cfg *ServerConfig) { cfg.spoil = func(m *manifest) { m.State.Digest[0] ^= 1 } }
		}},
		{name: "read models of another log", want: errBad, spoil: func(*testing.T, *replica) func(*ServerConfig) {
			return func(cfg *ServerConfig) { cfg.spoil = func(m *manifest) { m.Models.Head.Digest[0] ^= 1 } }
		}},
		{name: "another State than it says", want: errBad, spoil: func(_ *testing.T, have *replica) func(*ServerConfig) {
			return func(cfg *ServerConfig) {
				cfg.spoil = func(m *manifest) {
					m.State = have.w.commits[m.State.Sequence-2].Head()
				}
			}
		}},
		{name: "other read models than it says", want: errBad, spoil: func(*testing.T, *replica) func(*ServerConfig) {
			return func(cfg *ServerConfig) { cfg.spoil = func(m *manifest) { m.Models.Records++ } }
		}},
		{name: "of another form", want: ErrOtherForm, spoil: func(*testing.T, *replica) func(*ServerConfig) {
			return func(cfg *ServerConfig) {
				cfg.form = ownForm()
				cfg.form.Schema++
			}
		}},
		{name: "of another form of files", want: ErrOtherForm, spoil: func(*testing.T, *replica) func(*ServerConfig) {
			return func(cfg *ServerConfig) {
				cfg.form = ownForm()
				cfg.form.Files--
			}
		}},
		{name: "a file changes on the way", want: errBad, passes: true, spoil: func(t *testing.T, have *replica) func(*ServerConfig) {
			return onParts(2, func(copy string) { flip(t, find(t, copy, stateName)) })
		}},
		{name: "a table is damaged where it comes from", want: projector.ErrDamaged,
			spoil: func(t *testing.T, have *replica) func(*ServerConfig) {
				if _, err := have.views.Copy(filepath.Join(t.TempDir(), "flushed")); err != nil {
					t.Fatal(err)
				}
				flip(t, find(t, have.views.Dir(), ".sst"))
				return nil
			}},
		{name: "the snapshot is damaged where it comes from", want: errBad,
			spoil: func(t *testing.T, have *replica) func(*ServerConfig) {
				if err := have.snaps.Save(have.state.Fork()); err != nil {
					t.Fatal(err)
				}
				flip(t, find(t, filepath.Join(have.dir, "snapshots"), ".snapshot"))
				return nil
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			bad := w.full(0)
			spoil := c.spoil(t, bad)
			bad.serve("bad", spoil)
			into := w.open(t.TempDir())
			defer into.close()
			into.fold(20, 10)
			before := digestOf(t, into.views)
			var log ledger.Log = w.log
			if c.log != nil {
				log = c.log(log)
			}
			j := &joiner{
				JoinConfig: JoinConfig{
					Conn: w.connect(), Log: log, Folder: into.folder(), Logger: quiet, always: true, wait: testWait,
				},
				id: commands.NewID(), bad: make(map[ledger.UUID]bool),
			}
			offers, err := j.offers(t.Context())
			if err == nil {
				_, err = j.round(t.Context(), offers)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, and not %v", err, c.want)
			}
			if there, err := exists(into.folder().path(readyName)); err != nil || there {
				t.Errorf("a bad copy is ready: %v", err)
			}
			if err := into.folder().Clean(); err != nil || digestOf(t, into.views) != before {
				t.Errorf("something has changed: %v", err)
			}
			nothingLeft(t, into)
			good := w.full(0)
			good.serve("good", nil)
			if got, err := w.join(into, nil); err != nil || got.From != "good" && !c.passes && c.log == nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// otherLog is a log with other commits.
type otherLog struct{ ledger.Log }

// Read implements ledger.Log.
func (l otherLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return l.Log.Read(ctx, from, to, func(e ledger.Entry) error {
		return yield(ledger.Entry{Sequence: e.Sequence, Data: append([]byte("x"), e.Data...)})
	})
}

// TestManifests: one that would write elsewhere, or is not whole, is refused.
func TestManifests(t *testing.T) {
	at := func(sequence uint64) ledger.Head { return ledger.Head{Sequence: sequence} }
	good := func() *manifest {
		return &manifest{
			Form: ownForm(), State: at(5), Models: projector.Position{Head: at(6)},
			Files: []file{{Name: stateName}, {Name: modelsName + "/000001.sst"}},
		}
	}
	if err := good().check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*manifest){
		"another form":      func(m *manifest) { m.Form.Level++ },
		"no State":          func(m *manifest) { m.Files = m.Files[1:] },
		"no read models":    func(m *manifest) { m.Files = m.Files[:1] },
		"twice":             func(m *manifest) { m.Files = append(m.Files, m.Files[0]) },
		"State is ahead":    func(m *manifest) { m.State = at(7) },
		"nothing yet":       func(m *manifest) { m.State = at(0) },
		"above":             func(m *manifest) { m.Files[1].Name = modelsName + "/../../x" },
		"absolute":          func(m *manifest) { m.Files[1].Name = "/etc/passwd" },
		"a folder":          func(m *manifest) { m.Files[1].Name = modelsName + "/a/b" },
		"no name":           func(m *manifest) { m.Files[1].Name = modelsName + "/" },
		"hidden":            func(m *manifest) { m.Files[1].Name = modelsName + "/.." },
		"elsewhere":         func(m *manifest) { m.Files[1].Name = "mark" },
		"a negative length": func(m *manifest) { m.Files[1].Bytes = -1 },
	} {
		m := good()
		spoil(m)
		if err := m.check(); err == nil {
			t.Errorf("%s: %+v is taken", name, m)
		}
	}
}

// TestSourceGoesAway: whoever loses the replica that it gets a copy from begins
// again with another one; and who has asked for nothing for long gets nothing.
func TestSourceGoesAway(t *testing.T) {
	w := newWorld(t)
	first, second := w.full(0), w.full(0)
	var leaving *Server
	var once atomic.Bool
	gone := make(chan error, 1)
	leaving = first.serve("1", func(cfg *ServerConfig) {
		var parts atomic.Int32
		cfg.Pace = paceFunc(func(ctx context.Context, _ int) error {
			if parts.Add(1) <= 2 {
				return nil
			}
			if once.CompareAndSwap(false, true) {
				go func() { gone <- leaving.Stop() }()
			}
			<-ctx.Done() // no part after the second one is sent
			return ctx.Err()
		})
	})
	second.serve("2", func(cfg *ServerConfig) { cfg.Leads = func() bool { return true } })
	into := w.open(t.TempDir())
	defer into.close()
	got, err := w.join(into, nil)
	if err != nil || got.From != "2" {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

// TestOneAtATime: a replica gives one copy at a time; another one waits, and has
// its own as soon as the first one was dropped.
func TestOneAtATime(t *testing.T) {
	w := newWorld(t)
	have := w.full(0)
	serving := have.serve("a", nil)
	nc := w.connect()
	ask := func(q question) answer {
		t.Helper()
		s := &source{
			joiner: &joiner{JoinConfig: JoinConfig{Conn: nc}, id: q.Joiner},
			offer:  offer{Instance: serving.cfg.Instance}, copy: q.Copy,
		}
		a, err := s.ask(t.Context(), q)
		if err != nil {
			a.Failure = err.Error()
		}
		return a
	}
	one, other := commands.NewID(), commands.NewID()
	a := ask(question{Do: doBegin, Joiner: one})
	if a.Failure != "" {
		t.Fatal(a.Failure)
	}
	if b := ask(question{Do: doBegin, Joiner: other}); b.Failure != busy {
		t.Errorf("two at a time: %+v", b)
	}
	if b := ask(question{Do: doLook, Joiner: other, Copy: a.Copy}); b.Failure != noCopy {
		t.Errorf("a stranger's copy: %+v", b)
	}
	if b := ask(question{Do: "dance", Joiner: one, Copy: a.Copy}); b.Failure == "" {
		t.Error("it dances")
	}
	serving.mu.Lock()
	serving.current.asked = time.Now().Add(-2 * idleFor)
	serving.mu.Unlock()
	into := w.open(t.TempDir())
	defer into.close()
	if _, err := w.join(into, nil); err != nil {
		t.Fatal(err)
	}
}

// TestKilledWhilePlacing: whoever is killed while a copy comes to its place, at
// whatever step, has it there after the next start; and before it is decided
// that it counts, nothing has changed.
func TestKilledWhilePlacing(t *testing.T) {
	w := newWorld(t)
	have := w.full(testCommits - 10)
	have.serve("a", nil)
	want := digestOf(t, have.views)
	steps := len(have.folder().steps())
	for _, at := range []int{0, 20} {
		for killed := range steps + 1 {
			for again := range 2 { // killed once more, at the same step of the second try
				into := w.open(t.TempDir())
				into.fold(at, at/2)
				if _, err := w.join(into, nil); err != nil {
					t.Fatal(err)
				}
				into.close()
				for range again + 1 {
					for _, step := range into.folder().steps()[:killed] {
						if err := step(); err != nil {
							t.Fatal(err)
						}
					}
				}
				into = w.open(into.dir)
				state, found, err := into.snaps.Load(testCommits)
				if got := digestOf(t, into.views); got != want || err != nil || !found || state.Head().Sequence != testCommits-10 {
					t.Errorf("from %d, killed after step %d: digest %.8s, a snapshot: %v, %v", at, killed, got, found, err)
				}
				into.close()
				nothingLeft(t, into)
			}
		}
	}
	into := w.open(t.TempDir())
	into.fold(20, 10)
	before := digestOf(t, into.views)
	if _, err := w.join(into, nil); err != nil {
		t.Fatal(err)
	}
	// As if it had been killed before the rename that decides.
	if err := os.Rename(into.folder().path(readyName), into.folder().path(makingName)); err != nil {
		t.Fatal(err)
	}
	into.close()
	if err := into.folder().Clean(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, into)
	into = w.open(into.dir)
	defer into.close()
	heads, err := into.snaps.Heads()
	if got := digestOf(t, into.views); got != before || err != nil || len(heads) != 1 {
		t.Errorf("digest %.8s, and before %.8s; snapshots %v, %v", got, before, heads, err)
	}
}

// TestWorth: an empty replica of a long log fetches a copy, and one that lacks
// little replays.
func TestWorth(t *testing.T) {
	o := offer{Sequence: 20_000, Records: 10_000_000, Bytes: 1_750_000_000}
	for from, want := range map[uint64]bool{0: true, 10_000: true, 19_000: false, 20_000: false, 20_001: false} {
		if got := worth(from, o); got != want {
			t.Errorf("from %d: %v", from, got)
		}
	}
	small := offer{Sequence: 200, Records: 100_000, Bytes: 17_500_000}
	if worth(0, small) {
		t.Error("a log that is replayed in a moment")
	}
	at := projector.Position{Head: ledger.Head{Sequence: 1000}, Records: 1000}
	for _, c := range []struct {
		at         projector.Position
		from, last uint64
		want       bool
	}{{at, 1000, 1000, false}, {at, 1000, 2000, false}, {at, 1000, 2_000_000, true}, {projector.Position{}, 0, 5, true}} {
		if got := MayBeWorth(c.at, c.from, c.last); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestOrderOfOffers: who is free is asked before who is busy, and who follows
// before who leads.
func TestOrderOfOffers(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name        string
		busy, leads bool
	}{{"leads", false, true}, {"follows", false, false}, {"is busy", true, false}} {
		r := w.full(0)
		s := r.serve(c.name, func(cfg *ServerConfig) { cfg.Leads = func() bool { return c.leads } })
		if c.busy {
			s.begin(question{Joiner: commands.NewID()})
		}
	}
	unfit := w.full(0)
	unfit.serve("unfit", func(cfg *ServerConfig) { cfg.Unfit = func() error { return errors.New("no room") } })
	j := &joiner{JoinConfig: JoinConfig{Conn: w.connect(), always: true}}
	offers, err := j.offers(t.Context())
	var names []string
	for _, o := range offers {
		names = append(names, o.Name)
	}
	if err != nil || !slices.Equal(names, []string{"follows", "leads", "is busy"}) {
		t.Errorf("%v, %v", names, err)
	}
	j.Room = func() int64 { return 10 }
	if _, err := j.offers(t.Context()); err == nil || !strings.Contains(err.Error(), "room") {
		t.Errorf("without room: %v", err)
	}
}
