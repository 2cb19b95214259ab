package snapshots_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/snapshots"
)

func saved(t *testing.T) (dir, path string, state *ledger.State) {
	t.Helper()
	dir = t.TempDir()
	store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	state = ledgertest.State(t, 50)
	if err := store.Save(state); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	return dir, paths[0], state
}

func TestSaveAndLoad(t *testing.T) {
	dir, _, state := saved(t)
	store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	loaded, found, err := store.Load(state.Head().Sequence)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	want, err := state.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := loaded.Digest(); err != nil || got != want {
		t.Errorf("loaded State has digest %s, %v; want %s", got, err, want)
	}
	if _, found, err := store.Load(state.Head().Sequence - 1); found || err != nil {
		t.Errorf("a snapshot from the future was loaded: %v", err)
	}
}

// TestEveryDamageIsFound flips every bit and cuts at every byte.
func TestEveryDamageIsFound(t *testing.T) {
	_, path, _ := saved(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1 << (i % 8)
		if _, err := snapshots.Decode(damaged); !errors.Is(err, snapshots.ErrDamaged) {
			t.Fatalf("flipped bit in byte %d: %v", i, err)
		}
		if _, err := snapshots.Decode(whole[:i]); !errors.Is(err, snapshots.ErrDamaged) {
			t.Fatalf("cut at byte %d: %v", i, err)
		}
	}
}

// TestDamagedSnapshotIsSkipped: an older good one serves, and the head of the
// damaged one still counts as a position that was seen.
func TestDamagedSnapshotIsSkipped(t *testing.T) {
	dir, _, older := saved(t)
	store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	newer := ledgertest.State(t, 60)
	if err := store.Save(newer); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	last := paths[len(paths)-1]
	data, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(last, data, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, found, err := store.Load(1 << 60)
	if err != nil || !found || loaded.Head() != older.Head() {
		t.Fatalf("loaded %v, %v", found, err)
	}
	heads, err := store.Heads()
	if err != nil || len(heads) != 2 || heads[0] != newer.Head() {
		t.Errorf("marks %v, %v", heads, err)
	}
}

// TestSortedSnapshotIsPassedOver: what was stored before the order of
// allocations was kept is read, and nothing goes on from it; its position still
// counts as one that was seen.
func TestSortedSnapshotIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "ALLOTSN1.state-v3.order.hex"))
	if err != nil {
		t.Fatal(err)
	}
	golden := strings.TrimSpace(string(text))
	old := filepath.Join(dir, fmt.Sprintf("%020d.snapshot", 4))
	if err := os.WriteFile(old, bytesAt(t, golden, 0, len(golden)/2), 0o600); err != nil {
		t.Fatal(err)
	}
	commits := ledgertest.OrderCommits(t)
	whole := ledgertest.Fold(t, commits)
	if state, found, err := store.Load(1 << 60); found || err != nil {
		t.Errorf("loaded %v, %v", state, err)
	}
	if heads, err := store.Heads(); err != nil || len(heads) != 1 || heads[0] != whole.Head() {
		t.Errorf("marks %v, %v", heads, err)
	}
	if state, err := snapshots.Read(old); err != nil || state.Ordered() {
		t.Errorf("read %v, %v", state, err)
	}
	older := ledgertest.Fold(t, commits[:2])
	if err := store.Save(older); err != nil {
		t.Fatal(err)
	}
	loaded, found, err := store.Load(1 << 60)
	if err != nil || !found || loaded.Head() != older.Head() {
		t.Fatalf("loaded %v, %v", found, err)
	}
	for _, c := range commits[2:] {
		if _, err := loaded.Fold(c); err != nil {
			t.Fatal(err)
		}
	}
	want, err := whole.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := loaded.Digest(); err != nil || got != want {
		t.Errorf("folded from the snapshot the State has digest %s, %v; from the log alone %s", got, err, want)
	}
}

// TestGoldenSnapshots compares snapshots with those on file, and reads every
// one on file.
func TestGoldenSnapshots(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		t.Run(history.Name, func(t *testing.T) {
			state := ledgertest.Fold(t, history.Commits)
			now := hex.EncodeToString(snapshotOf(t, state))
			// A file is named by what its beginning says: the magic, and the version of the State behind it.
			name := fmt.Sprintf("%s.state-v%d.%s.hex", bytesAt(t, now, 0, 8), versionOf(t, now), history.Name)
			if golden := strings.TrimSpace(ledgertest.Golden(t, name, now+"\n")); golden != now {
				t.Errorf("a snapshot has another form than in %s: if it is the State's, see ledger's TestGoldenStates; if it is "+
					"the file's, write another magic and read this one, too\nnow:     %s\non file: %s", name, now, golden)
			}
		})
	}
	paths, err := filepath.Glob(filepath.Join("testdata", "*.hex"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSpace(string(text))
		if _, err := snapshots.Decode(bytesAt(t, golden, 0, len(golden)/2)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func bytesAt(t *testing.T, text string, from, to int) []byte {
	t.Helper()
	data, err := hex.DecodeString(text[2*from : 2*to])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// snapshotOf is the file that a State is saved as.
func snapshotOf(t *testing.T, state *ledger.State) []byte {
	t.Helper()
	dir := t.TempDir()
	store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(state); err != nil {
		t.Fatal(err)
	}
	paths, err := snapshots.Files(dir)
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("ALLOTSN1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := snapshots.Decode(data); err == nil {
			t.Error("random bytes are a snapshot")
		}
	})
}

// versionOf is the version of the State in a snapshot: it follows the length of
// the State's array, which is one byte up to 15 fields, and three from then on.
func versionOf(t *testing.T, snapshot string) byte {
	t.Helper()
	const long = 0xdc // msgpack's array of up to 65535
	if bytesAt(t, snapshot, 56, 57)[0] == long {
		return bytesAt(t, snapshot, 59, 60)[0]
	}
	return bytesAt(t, snapshot, 57, 58)[0]
}
