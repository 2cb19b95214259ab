package projector

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestOtherVersion: read models of another build are removed completely, to be
// rebuilt from the log.
func TestOtherVersion(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(dir, quiet)
	ledgertest.OK(t, err)
	head := ledger.Head{Sequence: 7, Digest: ledger.Digest{7}}
	value := append(binary.AppendUvarint(binary.AppendUvarint(nil, schemaVersion+1), 7), head.Digest[:]...)
	err = p.models.Load().Use(func(db *pebble.DB) error { return db.Set([]byte{tableCheckpoint}, value, pebble.Sync) })
	ledgertest.OK(t, err)
	ledgertest.OK(t, p.Close())
	if at, err := Inspected(FilesIn(dir)); !errors.Is(err, ErrDamaged) {
		t.Errorf("inspected: %+v, %v", at, err)
	}
	p, err = Open(dir, quiet)
	ledgertest.OK(t, err)
	if p.Checkpoint().Sequence != 0 {
		t.Errorf("checkpoint %+v", p.Checkpoint())
	}
	ledgertest.OK(t, p.Close())
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v in %s", entries, err, filepath.Base(dir))
	}
}
