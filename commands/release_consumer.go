package commands

import (
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ReleaseConsumer removes everything that a consumer holds, and the consumer with
// it. Providers' generations stay.
type ReleaseConsumer struct {
	Consumer   ledger.UUID `json:"consumer"`
	Generation *uint64     `json:"generation,omitempty"` // absent: not checked, as in REST
}

func (c *ReleaseConsumer) consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

func (c *ReleaseConsumer) check() *demand.Rejection { return checkUUID("consumer", c.Consumer) }

func (*ReleaseConsumer) onlyHoldings() {}

func (c *ReleaseConsumer) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideHolder(s, c.Consumer, project)
}

func (c *ReleaseConsumer) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	consumer, ok := s.Consumer(c.Consumer)
	if !ok {
		return nil, consumerNotFound(c.Consumer)
	}
	if c.Generation != nil && *c.Generation != consumer.Generation {
		return nil, consumerConflict(c.Consumer, &consumer.Generation, c.Generation)
	}
	if r := followsNodeAllocation(s, c.Consumer); r != nil {
		return nil, r
	}
	return removeConsumer(s, consumer), nil
}

func consumerNotFound(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(demand.CodeConsumerNotFound, demand.Facts{Consumer: &id}, "consumer %s holds nothing", id)
}

// consumerConflict makes a rejection with the generation that a consumer has and
// the one that was given. As a given generation nil means "I expect no consumer",
// as the present one "there is none".
func consumerConflict(id ledger.UUID, has, given *uint64) *demand.Rejection {
	facts := demand.Facts{Consumer: &id, Expected: signed(has), Got: signed(given)}
	return demand.Refuse(
		demand.CodeConsumerConflict, facts,
		"consumer %s is at generation %s, not %s", id, orNull(facts.Expected), orNull(facts.Got),
	)
}

func signed(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	v := int64(*n)
	return &v
}

func orNull(n *int64) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}
