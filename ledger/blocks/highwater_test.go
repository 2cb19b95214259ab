package blocks_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestTornMarkLeavesTheOneBefore tears each write of a mark at any byte, those of a new file, too.
func TestTornMarkLeavesTheOneBefore(t *testing.T) {
	store := t.TempDir()
	path := blocks.HighWaterPath(store)
	mark := ledgertest.Must(blocks.Folder{Store: store}.OpenHighWater(false))
	var before ledger.Head
	whole := ledgertest.ReadFile(t, path)
	torn := filepath.Join(t.TempDir(), "torn")
	for sequence := range uint64(4) {
		head := ledger.Head{Sequence: sequence + 1, Digest: ledger.Digest{1, byte(sequence)}}
		ledgertest.OK(t, mark.Set(head))
		written := ledgertest.ReadFile(t, path)
		for at := range len(written) + 1 {
			ledgertest.OK(t, os.WriteFile(torn, slices.Concat(written[:at], whole[min(at, len(whole)):]), 0o600))
			if found, err := blocks.ReadHighWater(torn); err != nil || found != before && found != head {
				t.Fatalf("torn at byte %d, %v over %v: %v, %v", at, head, before, found, err)
			}
		}
		before, whole = head, written
	}
	ledgertest.OK(t, mark.Close(), os.WriteFile(path, make([]byte, len(whole)), 0o600))
	if _, err := blocks.ReadHighWater(path); !errors.Is(err, blocks.ErrNoPosition) {
		t.Error(err)
	}
}
