package audit

import (
	"context"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
)

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
