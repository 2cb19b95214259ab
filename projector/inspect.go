package projector

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger"
)

// Inspect reads the checkpoint and the digest of the read models in a folder. It
// changes nothing there. No projector may have them open. A fault of them is an
// ErrDamaged.
func Inspect(dir string) (ledger.Head, ledger.Digest, error) {
	m := newModels(vfs.Default, slog.New(slog.DiscardHandler), nil)
	defer m.cache.Unref()
	if err := m.open(filepath.Join(dir, "pebble"), true); err != nil {
		return ledger.Head{}, ledger.Digest{}, err
	}
	err := m.load()
	var sum ledger.Digest
	if err == nil {
		sum, err = m.view().digest()
	}
	return m.head, sum, errors.Join(err, m.endInspection(m.db))
}

func (m *models) endInspection(db *pebble.DB) (err error) {
	defer m.recovered(&err)
	return db.Close()
}
