package audit

import (
	"context"
	"math"

	"github.com/allot-project/allot/ledger"
)

// Bounds of an answer with commits.
const (
	maxCommits  = 100_000
	someCommits = 1000 // unless the client asks for another number
)

// Commit is a commit of the log as it is. Its bytes hash to the digest, which
// the next commit names as its predecessor's.
type Commit struct {
	Sequence uint64        `json:"sequence"`
	Digest   ledger.Digest `json:"digest"`
	Data     []byte        `json:"data"` // base64
}

// rawCommits is GET /audit/commits: the log itself, for backups. It ends at the limit
// or at the end of the log; entries that are no commits of the ledger are among them.
func (q *Questions) rawCommits(p *parameters) (func(context.Context, *lines) error, error) {
	from := number[int64](p, "from", 1, math.MaxInt64, 1)
	limit := number[int64](p, "limit", 1, maxCommits, someCommits)
	if p.fault != nil {
		return nil, p.fault
	}
	last := min(q.Views.View().Sequence(), uint64(from)+uint64(limit)-1)
	return func(ctx context.Context, to *lines) error {
		for next := uint64(from); next <= last; {
			list, err := q.someCommits(ctx, to.asker, next, last)
			if err != nil {
				return err
			}
			for i := range list {
				if err := to.line(ledger.Address{Sequence: list[i].Sequence}, &list[i]); err != nil {
					return err
				}
			}
			if err := to.flush(); err != nil {
				return err
			}
			next += uint64(len(list))
		}
		return nil
	}, nil
}

// someCommits reads some commits, with a place.
func (q *Questions) someCommits(ctx context.Context, asker string, from, last uint64) (list []Commit, err error) {
	work, err := q.Fair.Long(ctx, asker)
	if err != nil {
		return nil, err
	}
	defer work.End()
	err = q.chunk(ctx, from, last, func(e ledger.Entry) error {
		list = append(list, Commit{e.Sequence, ledger.DigestOf(e.Data), append([]byte(nil), e.Data...)})
		return nil
	})
	if err == nil && len(list) == 0 {
		err = ledger.ErrLogGap
	}
	return list, err
}
