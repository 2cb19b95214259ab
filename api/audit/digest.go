package audit

import (
	"context"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// digestTries is how often the read models are read through while new commits
// arrive. After that the digest of a moment is derived from later read models,
// which takes longer.
const digestTries = 3

// Digests are the position of the log after a commit, and the digests that a
// replay of the log up to there must give, too.
type Digests struct {
	ledger.Head
	ReadModels ledger.Digest `json:"read_models"`
	Records    int64         `json:"records"`
	Root       ledger.Digest `json:"root"` // of the Merkle tree
}

// digest is GET /audit/digest: of the newest commit unless a moment is asked for.
func (q *Questions) digest(ctx context.Context, p *parameters) (any, error) {
	for range digestTries {
		if p.given["at"] != "" {
			break
		}
		head := q.Views.Checkpoint()
		sum, err := q.Views.Digest()
		if err != nil {
			return nil, err
		}
		if view := q.Views.View(); q.Views.Checkpoint() == head && view.Sequence() == head.Sequence {
			return q.digestsOf(ctx, view, sum)
		}
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	sum, err := view.Digest(ctx, q.Log)
	if err != nil {
		return nil, err
	}
	return q.digestsOf(ctx, view, sum)
}

func (q *Questions) digestsOf(ctx context.Context, view projector.View, sum ledger.Digest) (*Digests, error) {
	checkpoint, err := view.Checkpoint(ctx, q.Log)
	if err != nil {
		return nil, err
	}
	return &Digests{Head: checkpoint.Head, ReadModels: sum, Records: checkpoint.Size, Root: checkpoint.Root}, nil
}
