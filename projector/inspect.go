package projector

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"github.com/allot-project/allot/ledger"
)

// Inspect reads the checkpoint and the digest of the read models in a folder
// and changes nothing there. No projector may have them open.
func Inspect(dir string) (ledger.Head, ledger.Digest, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	opts := options(cache, slog.New(slog.DiscardHandler))
	opts.ReadOnly = true
	db, err := pebble.Open(filepath.Join(dir, "pebble"), opts)
	if err != nil {
		return ledger.Head{}, ledger.Digest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	p := &Projector{db: db}
	err = p.load()
	var sum ledger.Digest
	if err == nil {
		sum, err = p.Digest()
	}
	return p.head, sum, errors.Join(err, db.Close())
}
