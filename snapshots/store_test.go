package snapshots_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/snapshots"
)

// saved saves a State of 50 commits.
func saved(t *testing.T) (dir, path string, state *ledger.State) {
	t.Helper()
	state = ledgertest.State(t, 50)
	dir, path = save(t, state)
	return dir, path, state
}

func open(t *testing.T, dir string) *snapshots.Store {
	t.Helper()
	return ledgertest.Must(snapshots.Open(dir, slog.New(slog.DiscardHandler)))
}

func save(t *testing.T, state *ledger.State) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	ledgertest.OK(t, open(t, dir).Save(state))
	paths, err := snapshots.Files(dir)
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	return dir, paths[0]
}

// TestEveryDamageIsFound flips every bit and cuts at every byte.
func TestEveryDamageIsFound(t *testing.T) {
	_, path, _ := saved(t)
	whole := ledgertest.ReadFile(t, path)
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

// TestDamagedSnapshotIsSkipped: an older good snapshot is loaded, and the head of
// the damaged one still counts as seen.
func TestDamagedSnapshotIsSkipped(t *testing.T) {
	dir, _, older := saved(t)
	store := open(t, dir)
	newer := ledgertest.State(t, 60)
	ledgertest.OK(t, store.Save(newer))
	paths := ledgertest.Must(snapshots.Files(dir))
	ledgertest.Flip(t, paths[0])
	for name, contents := range map[string]string{"9": "ALLOTSN1 and then nothing", "8": ""} { // no head can be read
		path := filepath.Join(dir, name+".snapshot")
		ledgertest.OK(t, os.WriteFile(path, []byte(contents), 0o600))
		if _, err := snapshots.Position(path); !errors.Is(err, snapshots.ErrDamaged) {
			t.Errorf("%q: %v", contents, err)
		}
	}
	heads, err := store.Heads()
	if err != nil || len(heads) != 2 || heads[0] != newer.Head() {
		t.Errorf("marks %v, %v", heads, err)
	}
	if loaded, found, err := store.Load(1 << 60); err != nil || !found || loaded.Head() != older.Head() {
		t.Errorf("loaded %v, %v", found, err)
	}
}

// TestGoldenSnapshots compares snapshots with the files.
func TestGoldenSnapshots(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		t.Run(history.Name, func(t *testing.T) {
			_, path := save(t, ledgertest.Fold(t, history.Commits))
			file := ledgertest.ReadFile(t, path)
			now := hex.EncodeToString(file)
			// A file is named after its magic, and the version of the State, which follows the head of its array.
			name := fmt.Sprintf("%s.state-v%d.%s.hex", file[:8], file[59], history.Name)
			if golden := strings.TrimSpace(ledgertest.Golden(t, name, now+"\n")); golden != now {
				t.Errorf("a snapshot has another form than in %s: if it is the State's, see ledger's TestGoldenStates; if it is "+
					"the file's, write another magic and read this one, too\nnow:     %s\non file: %s", name, now, golden)
			}
		})
	}
}

// fileOf returns a snapshot's file with some bytes for a State and right checksums.
func fileOf(head ledger.Head, state []byte) []byte {
	file := binary.BigEndian.AppendUint64([]byte("ALLOTSN1"), head.Sequence)
	file = append(file, head.Digest[:]...)
	check := sha256.Sum256(file)
	file = append(append(file, check[:8]...), state...)
	sum := sha256.Sum256(file)
	return append(file, sum[:]...)
}

// TestRightSumsOverWrongBytes: the checksums are right even if a file was assembled from two, or forged.
func TestRightSumsOverWrongBytes(t *testing.T) {
	older, newer := ledgertest.State(t, 3), ledgertest.State(t, 4)
	whole := ledgertest.EncodedState(t, newer)
	if s, err := snapshots.Decode(fileOf(newer.Head(), whole)); err != nil || s.Head() != newer.Head() {
		t.Errorf("a whole file: %v", err)
	}
	for name, file := range map[string][]byte{
		"the State of another moment": fileOf(newer.Head(), ledgertest.EncodedState(t, older)),
		"half a State":                fileOf(newer.Head(), whole[:100]),
		"no State":                    fileOf(newer.Head(), nil),
		"another magic":               append([]byte("ALLOTSN2"), fileOf(newer.Head(), whole)[8:]...),
	} {
		if _, err := snapshots.Decode(file); !errors.Is(err, snapshots.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFewAreKept: old snapshots and the remains of unfinished writes are removed, whatever the folder is called.
func TestFewAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of [a-z]*, ?")
	store := open(t, dir)
	for n := 3; n < 8; n++ {
		ledgertest.OK(t, store.Save(ledgertest.State(t, n)))
	}
	unfinished := filepath.Join(dir, "00000000000000000008.snapshot.tmp")
	ledgertest.OK(t, os.WriteFile(unfinished, []byte("ALLOTSN1"), 0o600))
	store = open(t, dir)
	heads, err := store.Heads()
	if err != nil || len(heads) != 3 || heads[0].Sequence != 7 || heads[2].Sequence != 5 {
		t.Errorf("%v, %v", heads, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	loaded, found, err := store.Load(6)
	if err != nil || !found || loaded.Head() != heads[1] {
		t.Errorf("up to 6: %v, %v", found, err)
	}
	if _, found, err := store.Load(4); found || err != nil {
		t.Errorf("a snapshot from the future was loaded: %v", err)
	}
}

// TestWhereAStartGoesOnStays: the newest snapshot that the durable read models have
// reached is not pruned, however many newer ones there are.
func TestWhereAStartGoesOnStays(t *testing.T) {
	for name, row := range map[string]struct {
		reached uint64
		err     error
		want    []uint64
	}{
		"they are up to date":    {reached: 9, want: []uint64{9, 8, 7}},
		"they are at one":        {reached: 5, want: []uint64{9, 8, 7, 6, 5}},
		"they have no snapshot":  {reached: 2, want: []uint64{9, 8, 7, 6, 5, 4, 3}},
		"it is not known":        {err: errors.New("no sync"), want: []uint64{9, 8, 7, 6, 5, 4, 3}},
		"they are before newest": {reached: 8, want: []uint64{9, 8, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, t.TempDir())
			store.KeepFor(func() (uint64, error) { return row.reached, row.err })
			for n := 3; n <= 9; n++ {
				if err := store.Save(ledgertest.State(t, n)); !errors.Is(err, row.err) && n > 5 {
					t.Fatal(err)
				}
			}
			heads := ledgertest.Must(store.Heads())
			var got []uint64
			for _, head := range heads {
				got = append(got, head.Sequence)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%v stay; want %v", got, row.want)
			}
		})
	}
}

// FuzzDecode puts right checksums around bytes, which then are a State or damage.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("ALLOTSN1"))
	f.Add(ledgertest.EncodedState(f, ledgertest.State(f, 3)))
	for _, history := range ledgertest.Histories(f) {
		f.Add(ledgertest.EncodedState(f, ledgertest.Fold(f, history.Commits)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := snapshots.Decode(data); !errors.Is(err, snapshots.ErrDamaged) {
			t.Errorf("random bytes are a snapshot: %v", err)
		}
		head := ledger.Head{Sequence: 7}
		if s, err := ledger.DecodeState(data); err == nil {
			head = s.Head()
		}
		s, err := snapshots.Decode(fileOf(head, data))
		if err != nil && !errors.Is(err, snapshots.ErrDamaged) {
			t.Errorf("an error of another kind: %v", err)
		}
		if err == nil && s.Head() != head {
			t.Errorf("the State is at %v, its file says %v", s.Head(), head)
		}
	})
}
