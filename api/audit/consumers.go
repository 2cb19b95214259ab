package audit

import (
	"cmp"
	"context"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// Consumers is a page of GET /audit/consumers, by uuid.
type Consumers struct {
	Sequence  uint64              `json:"sequence"` // sequence of the commit that the answer holds for
	Consumers []*wire.Allocations `json:"consumers"`
	Next      string              `json:"next,omitempty"` // the value of after for the next page
}

const maxConsumers = 1000

// consumers is GET /audit/consumers: the consumers that hold something, or those
// of a project, a user or a type. A page has less than limit of them if more than
// maxSearched were examined.
func (q entities) consumers(ctx context.Context, p *parameters) (any, error) {
	var after ledger.UUID
	if p.given["after"] != "" {
		after = p.uuid("after")
	}
	view, err := q.look(p, maxConsumers, maxConsumers)
	if err != nil {
		return nil, err
	}
	page := &Consumers{Sequence: view.Sequence(), Consumers: []*wire.Allocations{}}
	looked := 0
	err = view.Consumers(after, func(c *ledger.Consumer) bool {
		if looked++; len(page.Consumers) == view.limit || looked > maxSearched {
			page.Next = after.String()
			return false
		}
		after = c.UUID
		if !p.means("project", c.Owner.Project) || !p.means("user", c.Owner.User) || !p.means("type", c.Owner.Type) {
			return looked%1000 != 0 || ctx.Err() == nil
		}
		page.Consumers = append(page.Consumers, present.AllocationsOf(c, view.classes))
		return true
	})
	return page, cmp.Or(err, ctx.Err())
}
