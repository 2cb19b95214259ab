package blocks_test

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestUnsyncedEndIsCut damages a replica's blocks as a power cut does: lost pages, cuts and
// flipped bits. Behind the place up to which they were synced the log is cut at the damage;
// before it, or with no mark, the damage is named, and no byte changes.
func TestUnsyncedEndIsCut(t *testing.T) {
	store := filepath.Join(t.TempDir(), "log")
	log, stop := server(t, store)
	files := embedded.Files(store)
	mark, err := files.OpenHighWater(true, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	const synced = 140
	heads := appendCommits(t, log, ledger.Head{}, synced)
	if err := errors.Join(mark.Set(heads[synced-1]), mark.Close()); err != nil {
		t.Fatal(err)
	}
	heads = append(heads, appendCommits(t, log, heads[synced-1], 160)...)
	stop()
	paths, err := filepath.Glob(filepath.Join(files.Dir(), "msgs", "*.blk"))
	if err != nil || len(paths) < 3 {
		t.Fatal(paths, err)
	}
	whole := make(map[string][]byte)
	for _, path := range append(paths, blocks.HighWaterPath(store)) {
		if whole[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	random, cut, left := rand.New(rand.NewSource(1)), 0, 0
	rounds := ledgertest.Cases(20, 5)
	for round := range rounds {
		for path, contents := range whole {
			if err := os.WriteFile(path, contents, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := paths[random.Intn(len(paths))]
		damaged := bytes.Clone(whole[path])
		at := random.Intn(len(damaged))
		switch round % 3 {
		case 0:
			damaged = damaged[:at]
		case 1:
			damaged[at] ^= 1 << random.Intn(8)
		case 2:
			clear(damaged[at:min(len(damaged), at+4096)])
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		marked := round%10 > 0
		if !marked {
			if err := os.Remove(blocks.HighWaterPath(store)); err != nil {
				t.Fatal(err)
			}
		}
		verdict, err := files.JudgeReplica(t.Context(), blocks.CheckOptions{})
		if err == nil && verdict.Report != nil {
			cut++
			last := verdict.Last
			again, err := files.Check(t.Context(), blocks.CheckOptions{})
			whole := err == nil && again.Last == last && again.TornBytes == 0 && last == heads[last.Sequence-1]
			if !whole || last.Sequence < synced || !marked {
				t.Errorf("round %d, byte %d of %s: cut after %d, %+v, %v", round, at, path, last.Sequence, again, err)
			}
			continue
		}
		left++
		after, reading := os.ReadFile(path)
		if !errors.Is(err, blocks.ErrDamaged) || reading != nil || !bytes.Equal(after, damaged) {
			t.Errorf("round %d, byte %d of %s: %v", round, at, path, err)
		}
	}
	if cut < rounds/10 || left < rounds/10 {
		t.Errorf("cut %d times, and left %d times", cut, left)
	}
}

// TestQuietReplicaNotesWhatIsSynced: a replica that gets no commit after its start notes up to
// where its blocks are durable all the same, so that rot is never cut; and one without any commit
// leaves a mark that can be read.
func TestQuietReplicaNotesWhatIsSynced(t *testing.T) {
	store, heads := written(t, 30)
	files := embedded.Files(store)
	path := filepath.Join(files.Dir(), "msgs", "1.blk")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for _, seen := range []ledger.Head{{}, heads[29]} {
		if seen.Sequence > 0 {
			if err := blocks.WriteHighWater(blocks.HighWaterPath(store), seen); err != nil {
				t.Fatal(err)
			}
		}
		mark, err := files.OpenHighWater(true, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(mark.Sync(), mark.Close()); err != nil {
			t.Fatal(err)
		}
		if head, err := blocks.ReadHighWater(blocks.HighWaterPath(store)); err != nil || head != seen {
			t.Fatalf("the mark is %+v, %v", head, err)
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = files.JudgeReplica(t.Context(), blocks.CheckOptions{})
		after, reading := os.ReadFile(path)
		if !errors.Is(err, blocks.ErrDamaged) || reading != nil || !bytes.Equal(after, damaged) {
			t.Errorf("seen %d: %v", seen.Sequence, err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
