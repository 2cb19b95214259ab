package present

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector"
)

// Notary signs checkpoints of the log.
type Notary struct {
	Ledger    ledger.UUID
	Log       ledger.Log     // for checkpoints of the past
	Key       note.Signer    // nil: it signs nothing
	Witnesses *witness.Group // nil: there are none
}

// ErrNoKey means that the server has no key to sign checkpoints with.
var ErrNoKey = errors.New("this server signs no checkpoints: it has no key (--signing-key)")

// Checkpoint signs the log as of a view, alone; but the newest cosigned checkpoint may be of that
// very moment.
func (n *Notary) Checkpoint(ctx context.Context, v projector.View) ([]byte, error) {
	if n != nil && n.Witnesses != nil {
		if kept := n.Witnesses.Kept(); kept != nil && kept.Sequence == v.Sequence() {
			return kept.Note, nil
		}
	}
	signed, err := n.sign(ctx, v)
	if err != nil {
		return nil, err
	}
	return signed.Note, nil
}

func (n *Notary) sign(ctx context.Context, v projector.View) (*witness.Signed, error) {
	if n == nil || n.Key == nil {
		return nil, ErrNoKey
	}
	c, err := v.Checkpoint(ctx, n.Log)
	if err != nil {
		return nil, err
	}
	c.Ledger = n.Ledger
	text, err := c.Sign(n.Key)
	grown := func(ctx context.Context, from int64) ([]ledger.Digest, error) { return v.ProveGrowth(ctx, n.Log, from) }
	return &witness.Signed{Note: text, Checkpoint: *c, Growth: grown}, err
}

// Newest signs the log as of now, and has the witnesses cosign it if there are some. It returns
// the view of the checkpoint, which may be newer than the one at the time of the call. It may
// wait for witnesses, so it takes no place of a client's.
func (n *Notary) Newest(ctx context.Context, views *projector.Projector) ([]byte, projector.View, error) {
	view := views.View()
	if n == nil || n.Witnesses == nil {
		signed, err := n.Checkpoint(ctx, view)
		return signed, view, err
	}
	least, err := view.Records()
	if err != nil {
		return nil, view, err
	}
	cosigned, err := n.Witnesses.Cosign(ctx, least, func(ctx context.Context) (*witness.Signed, error) {
		return n.sign(ctx, views.View())
	})
	if err != nil {
		return nil, view, err
	}
	view, err = views.ViewAt(cosigned.Sequence)
	return cosigned.Note, view, err
}
