package blocks_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// server starts a NATS server on a store and opens the log.
func server(t *testing.T, store string) (log *embedded.Log, stop func()) {
	t.Helper()
	ns := ledgertest.Must(embedded.Start(context.Background(), embedded.Config{StoreDir: store, LazySync: true}))
	nc := ledgertest.Must(ns.Connect())
	log = ledgertest.Must(ns.OpenLog(t.Context(), nc, jetstream.Config{MayCreate: true, AckTimeout: ledgertest.Hang}))
	return log, func() {
		nc.Close()
		ns.Shutdown()
	}
}

// written makes a log of n commits, every fortieth of which is as large as a
// quarter of a block, and stops the server.
func written(t *testing.T, n int) (store string, heads []ledger.Head) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "log")
	log, stop := server(t, store)
	heads = appendCommits(t, log, ledger.Head{}, n)
	stop()
	return store, heads
}

func appendCommits(t *testing.T, log ledger.Log, head ledger.Head, n int) (heads []ledger.Head) {
	t.Helper()
	fates := make(chan error, n)
	for i := range n {
		record := ledger.Record{
			CommandID: ledgertest.ID(9, byte(i)), Command: "CreateTrait", Time: int64(i + 1), Actor: "test",
			Events: ledgertest.Vocabulary()[:1],
		}
		if i%40 == 39 {
			record.RequestID = string(bytes.Repeat([]byte{'x'}, 2<<20))
		}
		commit, encoded := ledgertest.Commit(t, head, record)
		log.Append(commit.Sequence, encoded, func(err error) { fates <- err })
		head = commit.Head()
		heads = append(heads, head)
	}
	for range n {
		ledgertest.OK(t, <-fates)
	}
	return heads
}

// TestIndexIsAsTheServerWritesIt: Settle writes what nats-server wrote at its
// clean stop, to the byte. The test fails with a nats-server that has another
// form.
func TestIndexIsAsTheServerWritesIt(t *testing.T) {
	store, heads := written(t, 280)
	files := embedded.Files(store)
	index := filepath.Join(files.Dir(), "msgs", "index.db")
	theirs := ledgertest.ReadFile(t, index)
	report, err := files.Check(context.Background(), blocks.CheckOptions{})
	if err != nil || report.Last != heads[len(heads)-1] || report.Commits != uint64(len(heads)) {
		t.Fatalf("%+v, %v", report, err)
	}
	ledgertest.OK(t, os.Remove(index), files.Settle(report))
	if ours := ledgertest.ReadFile(t, index); !bytes.Equal(ours, theirs) {
		t.Fatalf("the index differs:\n%x\n%x", ours, theirs)
	}
	log, stop := server(t, store)
	defer stop()
	if last, err := log.Last(context.Background()); err != nil || last != uint64(len(heads)) {
		t.Errorf("the server has %d commits, %v", last, err)
	}
}

// TestReadsWhatTheServerReads compares reads of the files with reads through the
// server, while it appends.
func TestReadsWhatTheServerReads(t *testing.T) {
	store := filepath.Join(t.TempDir(), "log")
	log, stop := server(t, store)
	defer stop()
	ctx := context.Background()
	var head ledger.Head
	random := rand.New(rand.NewSource(1))
	for range 3 {
		heads := appendCommits(t, log, head, 80)
		head = heads[len(heads)-1]
		for range 10 {
			from := 1 + uint64(random.Int63n(int64(head.Sequence)))
			to := min(head.Sequence, from+uint64(random.Intn(50)))
			var got, want []ledger.Head
			collect := func(list *[]ledger.Head) func(ledger.Entry) error {
				return func(e ledger.Entry) error {
					*list = append(*list, ledger.Head{Sequence: e.Sequence, Digest: ledger.DigestOf(e.Data)})
					return nil
				}
			}
			ledgertest.OK(t, log.Read(ctx, from, to, collect(&got)), log.Log.Read(ctx, from, to, collect(&want)))
			if len(got) != int(to-from+1) || !slices.Equal(got, want) {
				t.Fatalf("%d..%d: %v, not %v", from, to, got, want)
			}
		}
	}
}

// TestDamageIsNamedAndLeft flips bits and cuts everywhere in the log's files. No
// server is started on them, and no byte changes.
func TestDamageIsNamedAndLeft(t *testing.T) {
	store, heads := written(t, 160)
	mark := heads[len(heads)-1]
	ledgertest.OK(t, blocks.WriteHighWater(blocks.HighWaterPath(store), mark))
	files := embedded.Files(store)
	paths, err := filepath.Glob(filepath.Join(files.Dir(), "msgs", "*.blk"))
	if err != nil || len(paths) < 2 {
		t.Fatal(paths, err)
	}
	paths = append(
		paths, filepath.Join(files.Dir(), "meta.inf"), filepath.Join(files.Dir(), "meta.sum"), blocks.HighWaterPath(store),
	)
	random := rand.New(rand.NewSource(2))
	for round := range ledgertest.Cases(60, 8) {
		path := paths[random.Intn(len(paths))]
		whole := ledgertest.ReadFile(t, path)
		damaged := bytes.Clone(whole)
		at := random.Intn(len(damaged))
		if round%4 == 0 {
			damaged = damaged[:at]
		} else {
			damaged[at] ^= 1 << random.Intn(8)
		}
		ledgertest.OK(t, os.WriteFile(path, damaged, 0o600))
		_, err = files.Judge(context.Background(), blocks.JudgeOptions{})
		if err == nil && filepath.Ext(path) != "" {
			t.Errorf("%s, byte %d of %d: not found", path, at, len(whole))
		}
		if !bytes.Equal(ledgertest.ReadFile(t, path), damaged) {
			t.Errorf("%s was changed", path)
		}
		ledgertest.OK(t, os.WriteFile(path, whole, 0o600))
	}
}

// TestTornEndIsCut: an unfinished write is removed, and everything before it
// stays.
func TestTornEndIsCut(t *testing.T) {
	store, heads := written(t, 30)
	files := embedded.Files(store)
	path := filepath.Join(files.Dir(), "msgs", "1.blk")
	whole := ledgertest.ReadFile(t, path)
	ledgertest.OK(t, blocks.WriteHighWater(blocks.HighWaterPath(store), heads[28]))
	for _, torn := range [][]byte{
		whole[:len(whole)-1], whole[:len(whole)-100],
		slices.Concat(whole, make([]byte, 4096)), slices.Concat(whole, []byte("torn")),
	} {
		ledgertest.OK(t, os.WriteFile(path, torn, 0o600))
		log, stop := server(t, store)
		last, err := log.Last(context.Background())
		if err != nil || last != heads[29].Sequence && last != heads[28].Sequence {
			t.Errorf("%d commits, %v", last, err)
		}
		stop()
	}
	ledgertest.OK(t, os.WriteFile(path, whole[:len(whole)-1000], 0o600))
	if _, err := files.Judge(context.Background(), blocks.JudgeOptions{}); !errors.Is(err, ledger.ErrLogBehind) {
		t.Errorf("a cut behind the mark: %v", err)
	}
}

// TestBudget: without time to read them, blocks that an index vouches for are
// left for later; those that it does not know are still read.
func TestBudget(t *testing.T) {
	store, heads := written(t, 160)
	files := embedded.Files(store)
	hasty := blocks.CheckOptions{Budget: 1}
	report, err := files.Check(context.Background(), hasty)
	if err != nil || report.Unread == 0 || report.Last != heads[len(heads)-1] || report.Commits != uint64(len(heads)) {
		t.Fatalf("%+v, %v", report, err)
	}
	ledgertest.OK(t, os.Remove(filepath.Join(files.Dir(), "msgs", "index.db")))
	report, err = files.Check(context.Background(), hasty)
	if err != nil || report.Unread != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
}

// TestScanGoesOnBehindWhatCannotBeRead: a block that the disk does not give back costs its own commits, and no others.
func TestScanGoesOnBehindWhatCannotBeRead(t *testing.T) {
	store, heads := written(t, 280)
	files := embedded.Files(store)
	lost := filepath.Join(files.Dir(), "msgs", "2.blk")
	ledgertest.OK(t, os.Remove(lost), os.Mkdir(lost, 0o750)) // reading it is an error
	var last, whole uint64
	damage, err := files.ScanIntact(context.Background(), func(e ledger.Entry) error {
		last, whole = e.Sequence, whole+1
		return nil
	})
	if err != nil || last != heads[len(heads)-1].Sequence || whole == last || whole == 0 ||
		len(damage) == 0 || damage[0].Path != lost {
		t.Errorf("%d entries up to %d, %v, %v", whole, last, damage, err)
	}
}
