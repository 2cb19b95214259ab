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

// Reservations is the answer of GET /audit/reservations: consumers whose
// allocations end unless they are confirmed.
type Reservations struct {
	Sequence     uint64              `json:"sequence"`     // sequence of the commit that the answer holds for
	Reservations []*wire.Allocations `json:"reservations"` // those that end first first
	// Incomplete means that there are more of them.
	Incomplete bool `json:"incomplete,omitempty"`
}

const (
	maxReservations     = 1000
	defaultReservations = 200
)

// reservations is GET /audit/reservations. Only those of now are indexed, and
// those of the past are answered by histories.
func (q *Questions) reservations(_ context.Context, p *parameters) (any, error) {
	limit := number(p, "limit", 1, maxReservations, defaultReservations)
	if p.fault != nil {
		return nil, p.fault
	}
	list, err := q.Views.Reservations(limit + 1)
	if err != nil {
		return nil, err
	}
	view := q.Views.View()
	answer := &Reservations{
		Sequence: view.Sequence(), Reservations: []*wire.Allocations{}, Incomplete: len(list) > limit,
	}
	for _, one := range list[:min(limit, len(list))] {
		held, err := present.Allocations(view, one.Consumer)
		if err != nil {
			return nil, err
		}
		if held != nil && held.ReservedUntil != "" { // it may have been confirmed meanwhile
			answer.Reservations = append(answer.Reservations, held)
		}
	}
	return answer, nil
}
