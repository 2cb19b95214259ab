package ledger

import "fmt"

// AllocationsClaimed is AllocationsReplaced for what a claim chose: the ledger
// was asked for something, and found where it is. What was asked, and why this
// was chosen, is on the record, so that nothing needs to be searched again.
type AllocationsClaimed struct {
	AllocationsReplaced
	// Until is when a reservation ends that the claim moved, in Unix
	// nanoseconds; 0: it is none.
	Until int64 `json:"until,omitempty"`
	// Asked is the request and the preference, as the client sent them.
	Asked Document `json:"asked"`
	// Mappings are the providers that serve each group of the request.
	Mappings []GroupMapping `json:"mappings"`
	// Score is what the preference gave it, Seed what decided between equal
	// ones, and AsOf the sequence of the commit as of which it was searched.
	Score float64 `json:"score"`
	Seed  uint64  `json:"seed"`
	AsOf  uint64  `json:"as_of"`
	// PassedOver is how many better ones did not fit any more when it was decided.
	PassedOver uint64 `json:"passed_over,omitempty"`
	// Alternates are the next best, as many as the client wanted to know.
	Alternates []Alternate `json:"alternates,omitempty"`
	// From is the reservation that all of it was drawn from; nil: none.
	From *UUID `json:"from_reservation,omitempty"`
	// Alternative is which of the claim's alternatives this is, from 0, and Earlier says of each before
	// it why it was not served.
	Alternative uint64   `json:"alternative,omitempty"`
	Earlier     []string `json:"earlier,omitempty"`
}

// HoldingsOf is what an event says that a consumer holds; false: it is about
// something else.
func HoldingsOf(event Event) (AllocationsReplaced, bool) {
	switch event := event.(type) {
	case AllocationsReplaced:
		return event, true
	case AllocationsReserved:
		return event.AllocationsReplaced, true
	case AllocationsClaimed:
		return event.AllocationsReplaced, true
	}
	return AllocationsReplaced{}, false
}

// GroupMapping names the providers that serve a group of a request.
type GroupMapping struct {
	Suffix    string `json:"suffix"`
	Providers []UUID `json:"providers"`
}

// Alternate is what could have been chosen instead.
type Alternate struct {
	Allocations []AllocationRecord `json:"allocations"`
	Mappings    []GroupMapping     `json:"mappings"`
	Score       float64            `json:"score"`
}

func (ev *AllocationsClaimed) form(c *coder) {
	c.eventFields(12)
	ev.AllocationsReplaced.form(c)
	c.int(&ev.Until).document(&ev.Asked)
	list(c, &ev.Mappings, (*GroupMapping).form)
	c.float(&ev.Score).uint(&ev.Seed).uint(&ev.AsOf).uint(&ev.PassedOver)
	list(c, &ev.Alternates, (*Alternate).form)
	optional(c, &ev.From, func(id *UUID, c *coder) { c.uuid(id) })
	c.uint(&ev.Alternative).names(&ev.Earlier)
}

func (m *GroupMapping) form(c *coder) { c.fields("mapping", 2).text(&m.Suffix).uuids(&m.Providers) }

func (a *Alternate) form(c *coder) {
	c.fields("alternate", 3)
	flat(c, "allocations", 3, &a.Allocations, (*AllocationRecord).form)
	list(c, &a.Mappings, (*GroupMapping).form)
	c.float(&a.Score)
}

func (ev AllocationsClaimed) apply(s *State, at moment) error {
	if ev.Until < 0 {
		return fmt.Errorf("%w: reservation of consumer %s ends at %d", ErrInvariant, ev.Consumer, ev.Until)
	}
	return ev.replace(s, at, at.time, ev.Until, nil)
}
