package audit

import (
	"context"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// digestTries is how often the read models are read through while commits
// keep coming in, before those of a moment are looked for among later ones,
// which takes longer.
const digestTries = 3

// Digests are what is so after a commit: its position, and what a replay of
// the log up to there must give, too.
type Digests struct {
	ledger.Head
	ReadModels ledger.Digest `json:"read_models"`
	Records    int64         `json:"records"`
	Root       ledger.Digest `json:"root"` // of the tree of all records
}

// digest is GET /audit/digest: of the newest commit if no moment is asked for.
func (q *Questions) digest(ctx context.Context, p parameters) (any, error) {
	for range digestTries {
		if p["at"] != "" {
			break
		}
		head := q.Views.Checkpoint()
		sum, err := q.Views.Digest()
		if err != nil {
			return nil, err
		}
		if view := q.Views.View(); q.Views.Checkpoint() == head && view.Sequence() == head.Sequence {
			return digestsOf(view, sum)
		}
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	sum, err := view.Digest(ctx)
	if err != nil {
		return nil, err
	}
	return digestsOf(view, sum)
}

func digestsOf(view projector.View, sum ledger.Digest) (*Digests, error) {
	checkpoint, err := view.Checkpoint()
	if err != nil {
		return nil, err
	}
	return &Digests{Head: checkpoint.Head, ReadModels: sum, Records: checkpoint.Size, Root: checkpoint.Root}, nil
}
