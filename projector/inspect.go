package projector

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/past"
)

// Inspect reads the checkpoint and the digest of the read models in a folder. It
// changes nothing there. No projector may have them open. A fault of them is an
// ErrDamaged. Commits that have left them are read from their log, and versions from
// files (nil: there are none, and such read models are an ErrPastUnknown).
func Inspect(dir string, log ledger.Log, files *past.Files) (ledger.Head, ledger.Digest, error) {
	from := newOrigin()
	from.log.Store(&log)
	from.past.Store(files)
	defer from.cancel()
	m := newModels(vfs.Default, slog.New(slog.DiscardHandler), from, nil)
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
