package present

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Notary signs checkpoints of the log.
type Notary struct {
	Ledger ledger.UUID
	Log    ledger.Log  // for checkpoints of the past
	Key    note.Signer // nil: it signs nothing
}

// ErrNoKey means that the server has no key to sign checkpoints with.
var ErrNoKey = errors.New("this server signs no checkpoints: it has no key (--signing-key)")

// Checkpoint signs the log as of a view.
func (n *Notary) Checkpoint(ctx context.Context, v projector.View) ([]byte, error) {
	if n == nil || n.Key == nil {
		return nil, ErrNoKey
	}
	c, err := v.Checkpoint(ctx, n.Log)
	if err != nil {
		return nil, err
	}
	c.Ledger = n.Ledger
	return c.Sign(n.Key)
}
