package projector

import (
	"errors"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/store"
)

// Inspect reads the checkpoint and the digest of the read models in a folder. It
// changes nothing there. No projector may have them open. A fault of them is an
// ErrDamaged.
func Inspect(dir string) (ledger.Head, ledger.Digest, error) {
	kept, err := store.OpenToRead(FilesIn(dir))
	if err != nil {
		return ledger.Head{}, ledger.Digest{}, err
	}
	m := newModels(kept)
	err = m.load()
	var sum ledger.Digest
	if err == nil {
		sum, err = m.view().digest()
	}
	return m.head, sum, errors.Join(err, m.close())
}
