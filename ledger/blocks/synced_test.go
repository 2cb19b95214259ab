package blocks_test

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	mark := ledgertest.Must(files.OpenHighWater(true))
	const synced = 140
	heads := appendCommits(t, log, ledger.Head{}, synced)
	ledgertest.OK(t, mark.Set(heads[synced-1]), mark.Close())
	heads = append(heads, appendCommits(t, log, heads[synced-1], 160)...)
	stop()
	paths, err := filepath.Glob(filepath.Join(files.Dir(), "msgs", "*.blk"))
	if err != nil || len(paths) < 3 {
		t.Fatal(paths, err)
	}
	whole := make(map[string][]byte)
	for _, path := range append(paths, blocks.HighWaterPath(store)) {
		whole[path] = ledgertest.ReadFile(t, path)
	}
	random, cut, left := rand.New(rand.NewSource(1)), 0, 0
	rounds := ledgertest.Cases(20, 5)
	for round := range rounds {
		for path, contents := range whole {
			ledgertest.OK(t, os.WriteFile(path, contents, 0o600))
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
		ledgertest.OK(t, os.WriteFile(path, damaged, 0o600))
		marked := round%10 > 0
		if !marked {
			ledgertest.OK(t, os.Remove(blocks.HighWaterPath(store)))
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
	whole := ledgertest.ReadFile(t, path)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for _, seen := range []ledger.Head{{}, heads[29]} {
		if seen.Sequence > 0 {
			ledgertest.OK(t, blocks.WriteHighWater(blocks.HighWaterPath(store), seen))
		}
		mark, err := files.OpenHighWater(true)
		ledgertest.OK(t, err)
		ledgertest.OK(t, mark.Close())
		if head, err := blocks.ReadHighWater(blocks.HighWaterPath(store)); err != nil || head != seen {
			t.Fatalf("the mark is %+v, %v", head, err)
		}
		ledgertest.OK(t, os.WriteFile(path, damaged, 0o600))
		_, err = files.JudgeReplica(t.Context(), blocks.CheckOptions{})
		after, reading := os.ReadFile(path)
		if !errors.Is(err, blocks.ErrDamaged) || reading != nil || !bytes.Equal(after, damaged) {
			t.Errorf("seen %d: %v", seen.Sequence, err)
		}
		ledgertest.OK(t, os.WriteFile(path, whole, 0o600))
	}
}

// TestNewestBlocksAreWrittenAgain: of each stream, and of each agreement with other servers, and
// not the whole log.
func TestNewestBlocksAreWrittenAgain(t *testing.T) {
	files := embedded.Files(t.TempDir())
	if err := files.WriteAgain(); err != nil {
		t.Fatalf("a store that is to begin: %v", err)
	}
	before := time.Unix(1_000_000_000, 0)
	for name, f := range map[string]struct {
		size    int
		written bool
	}{
		"$G/streams/ALLOT/msgs/8.blk":     {20 << 20, false},
		"$G/streams/ALLOT/msgs/9.blk":     {20 << 20, true},
		"$G/streams/ALLOT/msgs/10.blk":    {20 << 20, true},
		"$G/streams/KV_ALLOT/msgs/1.blk":  {100, true},
		"$SYS/_js_/S-R3F-one/msgs/3.blk":  {100, true},
		"$SYS/_js_/_meta_/msgs/7.blk":     {0, true},
		"$SYS/_js_/_meta_/msgs/index.db":  {100, false},
		"$SYS/_js_/_meta_/tav.idx":        {100, false},
		"$SYS/_js_/_meta_/msgs/other.blk": {100, false},
	} {
		path := filepath.Join(files.Store, "jetstream", name)
		contents := bytes.Repeat([]byte(name), f.size/len(name)+1)[:f.size]
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, contents, 0o600))
		ledgertest.OK(t, err, os.Chtimes(path, before, before))
		defer func() {
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, contents) {
				t.Errorf("%s holds %d bytes, %v", name, len(after), err)
			}
			info, err := os.Stat(path)
			if err != nil || !info.ModTime().Equal(before) != f.written && f.size > 0 {
				t.Errorf("%s was written again: %v, %v", name, !f.written, err)
			}
		}()
	}
	ledgertest.OK(t, files.WriteAgain())
}

// TestFailedSyncIsFinal: a sync that fails is told, and no later one makes the mark say more.
func TestFailedSyncIsFinal(t *testing.T) {
	store, heads := written(t, 30)
	files := embedded.Files(store)
	block := filepath.Join(files.Dir(), "msgs", "1.blk")
	ledgertest.OK(t, blocks.WriteHighWater(blocks.HighWaterPath(store), heads[29]))
	ledgertest.OK(t, os.Rename(block, block+".away"), os.Mkdir(block, 0o700))
	mark := ledgertest.Must(files.OpenHighWater(true))
	before := ledgertest.ReadFile(t, blocks.HighWaterPath(store))
	failed := mark.Await()
	ledgertest.OK(t, os.Remove(block), os.Rename(block+".away", block))
	if again := mark.Close(); failed == nil || !errors.Is(again, failed) {
		t.Errorf("the sync failed with %v, and then with %v", failed, again)
	}
	if after := ledgertest.ReadFile(t, blocks.HighWaterPath(store)); !bytes.Equal(after, before) {
		t.Error("the mark says more than was synced")
	}
}
