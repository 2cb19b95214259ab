package copies

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

var quiet = slog.New(slog.DiscardHandler)

const (
	testCommits = 60
	secret      = "a secret of sixteen bytes and more"
)

// world is a log with its commits.
type world struct {
	t       *testing.T
	log     *memlog.Log
	commits []*ledger.Commit
	secure  *tls.Config // of all replicas
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, log: &memlog.Log{}, commits: ledgertest.Commits(t, testCommits), secure: certificates(t)}
	ledgertest.AppendCommits(t, w.log, w.commits)
	return w
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
	ledgertest.OK(w.t, os.MkdirAll(filepath.Join(dir, "snapshots"), 0o750), r.folder().Finish())
	r.views = ledgertest.Must(projector.Open(filepath.Join(dir, "readmodel"), quiet))
	r.snaps = ledgertest.Must(snapshots.Open(filepath.Join(dir, "snapshots"), quiet))
	return r
}

func (r *replica) close() {
	r.w.t.Helper()
	ledgertest.OK(r.w.t, r.views.Close())
}

func (r *replica) folder() Folder {
	models := filepath.Join(r.dir, "readmodel")
	return Folder{ReadModels: models, Models: projector.FilesIn(models), Snapshots: filepath.Join(r.dir, "snapshots")}
}

// fold folds the log up to a sequence, and saves a snapshot at one.
func (r *replica) fold(to, snapshotAt int) {
	r.w.t.Helper()
	for _, c := range r.w.commits[r.state.Head().Sequence:to] {
		changes := ledgertest.Must(r.state.Fold(c))
		ledgertest.OK(r.w.t, r.views.Fold(c, changes))
		if int(c.Sequence) == snapshotAt {
			ledgertest.OK(r.w.t, r.snaps.Save(r.state.Fork()))
		}
	}
}

// serve has a replica give copies.
func (r *replica) serve(change func(*ServerConfig)) *Server {
	r.w.t.Helper()
	cfg := ServerConfig{
		Maker: Maker{
			Views: r.views, ReadModels: filepath.Join(r.dir, "readmodel"), Snapshots: r.snaps,
			Fork: func(context.Context) (*ledger.State, error) { return r.state.Fork(), nil },
		},
		Listen: "127.0.0.1:0", TLS: r.w.secure, Secret: secret, Logger: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	s := ledgertest.Must(Serve(cfg))
	t := r.w.t
	t.Cleanup(func() { ledgertest.OK(t, s.Stop()) })
	return s
}

// peer is how a server is found.
func peer(name, address string) Peer {
	return Peer{Name: name, Address: address, Sequence: testCommits}
}

// full is a replica that has folded all of the log, with a snapshot on the way.
func (w *world) full(snapshotAt int) *replica {
	w.t.Helper()
	r := w.open(w.t.TempDir())
	w.t.Cleanup(r.close)
	r.fold(testCommits, snapshotAt)
	return r
}

func (w *world) join(into *replica, change func(*JoinConfig), peers ...Peer) (*Copy, error) {
	w.t.Helper()
	cfg := JoinConfig{
		Peers: func(context.Context) []Peer { return slices.Clone(peers) }, TLS: w.secure, Secret: secret,
		Log: w.log, Folder: into.folder(), UpTo: testCommits, Needed: true, Logger: quiet, pause: time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	return Join(w.t.Context(), cfg)
}

func digestOf(t *testing.T, p *projector.Projector) ledger.Digest {
	t.Helper()
	return ledgertest.Must(p.Digest())
}

// TestJoin: an empty replica, and one that lags, get what another one has, with the State of its newest snapshot, or
// one that was made for it; and go on from there like any other. Nothing is left of the way it went.
func TestJoin(t *testing.T) {
	w := newWorld(t)
	for name, snapshotAt := range map[string]int{"with a snapshot": testCommits - 10, "without": 0} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			have := w.full(snapshotAt)
			serving := have.serve(nil)
			want := digestOf(t, have.views)
			for _, at := range []int{0, 20} {
				into := w.open(t.TempDir())
				into.fold(at, at/2)
				var last atomic.Pointer[Progress]
				got, err := w.join(into, func(cfg *JoinConfig) {
					cfg.Tell = func(p Progress) { last.Store(&p) }
				}, peer("a", serving.Address()))
				ledgertest.OK(t, err)
				told := last.Load()
				if got.Models.Head != have.state.Head() || got.Models.Records != have.views.Position().Records || got.From != "a" {
					t.Errorf("%+v", got)
				}
				if told.Of != got.Bytes || told.From != "a" || got.Bytes == 0 {
					t.Errorf("told of %+v; it has %d bytes", told, got.Bytes)
				}
				ledgertest.OK(t, into.views.Exchange(into.folder().Finish))
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
				if got := digestOf(t, into.views); got != want || into.views.Checkpoint() != have.state.Head() {
					t.Errorf("opened again, read models have digest %.8s at %d", got, into.views.Checkpoint().Sequence)
				}
				into.close()
				nothingLeft(t, into)
			}
		})
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
	ledgertest.OK(t, err)
	return paths
}

func nothingLeft(t *testing.T, r *replica) {
	t.Helper()
	if _, err := os.Stat(r.folder().path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v, %v", filesIn(t, r.folder().path()), err)
	}
}

// find finds a file that is not empty.
func find(t *testing.T, dir, suffix string) string {
	t.Helper()
	for _, path := range filesIn(t, dir) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 && strings.HasSuffix(path, suffix) {
			return path
		}
	}
	t.Fatalf("no %s in %s", suffix, dir)
	return ""
}

// TestBadCopies: what is not what the log gives, or not whole, or of another
// release, is not taken; nothing has changed then, and another replica is asked.
func TestBadCopies(t *testing.T) {
	says := func(spoil func(*manifest)) func(*testing.T, *replica) func(*manifest) {
		return func(*testing.T, *replica) func(*manifest) { return spoil }
	}
	for _, c := range []struct {
		name string
		// spoil makes a copy bad, at once or when it is made.
		spoil func(t *testing.T, have *replica) func(*manifest)
		want  error
		// log is what the one who joins takes for the log of both.
		log func(ledger.Log) ledger.Log
	}{
		{name: "of another log", want: errBad, spoil: says(nil), log: func(log ledger.Log) ledger.Log { return otherLog{log} }},
		{name: "a State of another log", want: errBad, spoil: says(func(m *manifest) { m.State.Digest[0] ^= 1 })},
		{name: "read models of another log", want: errBad, spoil: says(func(m *manifest) { m.Models.Head.Digest[0] ^= 1 })},
		{name: "another State than it says", want: errBad, spoil: func(_ *testing.T, have *replica) func(*manifest) {
			return func(m *manifest) {
				if m.State.Sequence > 0 { // else it is only offered
					m.State = have.w.commits[m.State.Sequence-2].Head()
				}
			}
		}},
		{name: "other read models than it says", want: errBad, spoil: says(func(m *manifest) { m.Models.Records++ })},
		{name: "of another form", want: ErrOtherForm, spoil: says(func(m *manifest) { m.Form.Schema++ })},
		{name: "of another form of files", want: ErrOtherForm, spoil: says(func(m *manifest) { m.Form.Files-- })},
		{name: "a file changes when it is listed", want: errBad, spoil: func(t *testing.T, have *replica) func(*manifest) {
			once := new(sync.Once)
			return func(m *manifest) {
				if m.State.Sequence > 0 {
					once.Do(func() {
						ledgertest.Flip(t, find(t, filepath.Join(have.dir, "readmodel", "copies"), string(stateName)))
					})
				}
			}
		}},
		{name: "a file is shorter than it says", want: errBad, spoil: says(func(m *manifest) { resize(m, 1) })},
		{name: "a file is longer than it says", want: errBad, spoil: says(func(m *manifest) { resize(m, -1) })},
		{name: "a table is damaged where it comes from", want: projector.ErrDamaged,
			spoil: func(t *testing.T, have *replica) func(*manifest) {
				ledgertest.Must(have.views.Copy(filepath.Join(t.TempDir(), "flushed")))
				ledgertest.Flip(t, find(t, have.views.Dir(), ".sst"))
				return nil
			}},
		{name: "the snapshot is damaged where it comes from", want: errBad,
			spoil: func(t *testing.T, have *replica) func(*manifest) {
				ledgertest.OK(t, have.snaps.Save(have.state.Fork()))
				ledgertest.Flip(t, find(t, filepath.Join(have.dir, "snapshots"), ".snapshot"))
				return nil
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			bad := w.full(0)
			spoil := c.spoil(t, bad)
			giver := bad.serve(nil)
			if spoil != nil {
				lie(giver, spoil)
			}
			w.refuses(t, c.want, "", func(into *replica) (*Copy, error) {
				return w.join(into, func(cfg *JoinConfig) {
					if c.log != nil {
						cfg.Log = c.log(w.log)
					}
				}, peer("bad", giver.Address()))
			})
			into, good := w.open(t.TempDir()), w.full(0).serve(nil)
			defer into.close()
			got, err := w.join(into, nil, peer("bad", giver.Address()), peer("good", good.Address()))
			if err != nil || got.From != "good" && c.log == nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// lie changes what a server says of its copies.
func lie(s *Server, change func(*manifest)) {
	routes := s.http.Handler
	says := s.answers(func(r *http.Request) ([]byte, error) {
		if r.URL.Path == offerPath {
			o := s.cfg.offer()
			m := &manifest{Form: o.Form, Models: o.Models}
			change(m)
			return json.Marshal(offer{m.Form, m.Models, o.Bytes})
		}
		text, err := s.current(r)
		m := new(manifest)
		if err = errors.Join(err, json.Unmarshal(text, m)); err != nil {
			return nil, err
		}
		change(m)
		return json.Marshal(m)
	})
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, filesPath) {
			routes.ServeHTTP(w, r)
			return
		}
		says.ServeHTTP(w, r)
	})
}

// resize has a manifest lie of the size of a file that it lists once.
func resize(m *manifest, by int64) {
	for i := range m.Files {
		if m.Files[i].Name == stateName {
			m.Files[i].Size += by
		}
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

// TestKilledWhilePlacing: a server that is killed while a copy comes to its place, at whatever step, has it there
// after the next start; and before it is decided that it counts, nothing has changed.
func TestKilledWhilePlacing(t *testing.T) {
	w := newWorld(t)
	have := w.full(testCommits - 10)
	giver := peer("a", have.serve(nil).Address())
	want := digestOf(t, have.views)
	steps := len(have.folder().steps())
	for _, one := range []struct{ at, times int }{{20, 1}, {0, 2}} { // again at the same step of the second try
		for killed := range steps + 1 {
			into := w.open(t.TempDir())
			into.fold(one.at, one.at/2)
			ledgertest.Must(w.join(into, nil, giver))
			into.close()
			for range one.times {
				for _, step := range into.folder().steps()[:killed] {
					ledgertest.OK(t, step())
				}
			}
			into = w.open(into.dir)
			state, found, err := into.snaps.Load(testCommits)
			if got := digestOf(t, into.views); got != want || err != nil || !found || state.Head().Sequence != testCommits-10 {
				t.Errorf("from %d, killed after step %d: digest %.8s, a snapshot: %v, %v", one.at, killed, got, found, err)
			}
			into.close()
			nothingLeft(t, into)
		}
	}
	into := w.open(t.TempDir())
	into.fold(20, 10)
	before := digestOf(t, into.views)
	ledgertest.Must(w.join(into, nil, giver))
	// As if it had been killed before the rename that decides.
	ledgertest.OK(t, os.Rename(into.folder().path(readyName), into.folder().path(makingName)))
	into.close()
	ledgertest.OK(t, into.folder().Clean())
	nothingLeft(t, into)
	into = w.open(into.dir)
	defer into.close()
	heads, err := into.snaps.Heads()
	if got := digestOf(t, into.views); got != before || err != nil || len(heads) != 1 {
		t.Errorf("digest %.8s, and before %.8s; snapshots %v, %v", got, before, heads, err)
	}
}

// TestWorth: an empty replica of a long log fetches a copy, and one that lacks little replays.
func TestWorth(t *testing.T) {
	offered := func(sequence uint64, records, bytes int64) offer {
		return offer{Models: projector.Position{Head: ledger.Head{Sequence: sequence}, Records: records}, Bytes: bytes}
	}
	o := offered(20_000, 10_000_000, 1_750_000_000)
	for from, want := range map[uint64]bool{0: true, 10_000: true, 19_000: false, 20_000: false, 20_001: false} {
		if got := copyBeatsReplay(from, o); got != want {
			t.Errorf("from %d: %v", from, got)
		}
	}
	if copyBeatsReplay(0, offered(200, 100_000, 17_500_000)) {
		t.Error("a log that is replayed in a moment")
	}
	at := projector.Position{Head: ledger.Head{Sequence: 1000}, Records: 1000}
	for _, c := range []struct {
		at         projector.Position
		from, last uint64
		want       bool
	}{{at, 1000, 1000, false}, {at, 1000, 2000, false}, {at, 1000, 2_000_000, true}, {projector.Position{}, 0, 5, true}} {
		if got := MayBeatReplay(c.at, c.from, c.last); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestOrderOfPeers: who follows is asked before who leads, and who has come farthest before others.
func TestOrderOfPeers(t *testing.T) {
	peers := []Peer{{Name: "leads", Leads: true, Sequence: 9}, {Name: "lags", Sequence: 7}, {Name: "b", Sequence: 8}, {Name: "a", Sequence: 8}}
	slices.SortFunc(peers, inOrder)
	var names []string
	for _, p := range peers {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "lags", "leads"}) {
		t.Error(names)
	}
}
