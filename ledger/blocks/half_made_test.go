package blocks_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// streamFolder returns the folder of a stream in a store.
func streamFolder(store, stream string) string {
	return filepath.Join(store, "jetstream", "$G", "streams", stream)
}

// TestHalfMadeLogIsMadeAgain: a server that ends while it makes the first stream leaves
// no damage, and the next one begins the log. With a commit in it, it is damage.
func TestHalfMadeLogIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{
		"its folder only":            {"meta.inf", "meta.sum", "msgs", "obs"},
		"no configuration":           {"meta.inf", "meta.sum"},
		"no checksum of it":          {"meta.sum"},
		"no block":                   {"msgs", "meta.inf"},
		"neither checksum nor block": {"meta.sum", "msgs"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, commits := range []int{0, 1} {
				store := t.TempDir()
				log, stop := server(t, store)
				seen := appendCommits(t, log, ledger.Head{}, commits)
				stop()
				whole := true
				for _, file := range lost {
					ledgertest.OK(t, os.RemoveAll(filepath.Join(streamFolder(store, jetstream.DefaultStream), file)))
					whole = whole && file != "msgs"
				}
				verdict, err := embedded.Files(store).Judge(t.Context(), blocks.JudgeOptions{})
				if commits > 0 && whole {
					if !errors.Is(err, blocks.ErrDamaged) {
						t.Errorf("with %d commits: %+v, %v", commits, verdict, err)
					}
					continue
				}
				if err != nil || verdict.Report != nil {
					t.Fatalf("%+v, %v", verdict, err)
				}
				for _, head := range seen {
					goneAfter(t, store, head)
				}
				log, stop = server(t, store)
				reads(t, log, 1, appendCommits(t, log, ledger.Head{}, 3))
				stop()
			}
		})
	}
}

// goneAfter checks that a store in which a commit was seen once is not taken for one that
// never had a log, and that nothing of it is changed.
func goneAfter(t *testing.T, store string, seen ledger.Head) {
	t.Helper()
	mark := blocks.HighWaterPath(store)
	ledgertest.OK(t, blocks.WriteHighWater(mark, seen))
	if ns, err := embedded.Start(t.Context(), embedded.Config{StoreDir: store}); !errors.Is(err, blocks.ErrGone) {
		t.Errorf("%v, %v", ns, err)
	}
	_, err := os.Stat(streamFolder(store, jetstream.DefaultStream))
	ledgertest.OK(t, err, os.Remove(mark))
}

func reads(t *testing.T, log ledger.Log, from uint64, heads []ledger.Head) {
	t.Helper()
	next := from
	err := log.Read(t.Context(), from, uint64(len(heads)), ledgertest.InOrder(&next, func(e ledger.Entry) bool {
		return ledger.DigestOf(e.Data) == heads[e.Sequence-1].Digest
	}))
	if err != nil || next != uint64(len(heads))+1 {
		t.Errorf("read %d to %d: %v", from, next-1, err)
	}
}
