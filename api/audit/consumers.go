package audit

import (
	"context"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// Consumers is a page of GET /audit/consumers, by uuid.
type Consumers struct {
	Sequence  uint64              `json:"sequence"` // sequence of the commit that the answer holds for
	Consumers []*wire.Allocations `json:"consumers"`
	Next      string              `json:"next,omitempty"` // the value of after for the next page
}

const maxConsumers = 1000

// consumers is GET /audit/consumers: all consumers that hold something.
func (q *Questions) consumers(_ context.Context, p parameters) (any, error) {
	var after ledger.UUID
	limit, err := p.number("limit", 1, maxConsumers, maxConsumers)
	if err == nil && p["after"] != "" {
		after, err = p.uuid("after")
	}
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	page := &Consumers{Sequence: view.Sequence(), Consumers: []*wire.Allocations{}}
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	err = view.Consumers(after, func(c *ledger.Consumer) bool {
		if len(page.Consumers) == int(limit) {
			page.Next = page.Consumers[limit-1].Consumer.String()
			return false
		}
		page.Consumers = append(page.Consumers, answers.AllocationsOf(c, classes))
		return true
	})
	return page, err
}
