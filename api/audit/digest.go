package audit

import (
	"context"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// digestTries is how often the read models are read through while commits
// keep coming in.
const digestTries = 3

// Digests are the position of the newest commit, and the digest of the read
// models after it, which a replay of the log must give, too.
type Digests struct {
	ledger.Head
	ReadModels ledger.Digest `json:"read_models"`
	Root       ledger.Digest `json:"root"` // of the tree of all records
}

// PastDigests are the position of a past commit, and the root of the tree of
// all records then. The read models have one digest, which is that of now.
type PastDigests struct {
	ledger.Head
	Records int64         `json:"records"`
	Root    ledger.Digest `json:"root"`
}

// digest is GET /audit/digest.
func (q *Questions) digest(_ context.Context, p parameters) (any, error) {
	if p["at"] != "" {
		return q.pastDigests(p)
	}
	return q.digests()
}

// digests reads the digests of now.
func (q *Questions) digests() (*Digests, error) {
	for range digestTries {
		head := q.Views.Checkpoint()
		sum, err := q.Views.Digest()
		if err != nil {
			return nil, err
		}
		view := q.Views.View()
		if q.Views.Checkpoint() != head || view.Sequence() != head.Sequence {
			continue
		}
		checkpoint, err := view.Checkpoint()
		if err != nil {
			return nil, err
		}
		return &Digests{head, sum, checkpoint.Root}, nil
	}
	return nil, rest.TryAgain("too much is being written to say")
}

// pastDigests reads the digests of a moment.
func (q *Questions) pastDigests(p parameters) (*PastDigests, error) {
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	checkpoint, err := view.Checkpoint()
	if err != nil {
		return nil, err
	}
	return &PastDigests{checkpoint.Head, checkpoint.Size, checkpoint.Root}, nil
}
