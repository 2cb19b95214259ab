package commands

import (
	"encoding/json"
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// MaxBatch is the largest number of commands in a batch.
const MaxBatch = 10_000

// Batch carries several commands out in order, in one record: all of them or
// none. Each command is decided against the outcome of those before it. No two
// commands may change the same consumer, because a consumer has one generation
// per commit.
type Batch struct {
	Commands []Command
}

func (c *Batch) consumers() []ledger.UUID {
	var all []ledger.UUID
	for _, one := range c.Commands {
		all = append(all, one.consumers()...)
	}
	return all
}

// MarshalJSON writes each command's name beside its content, for the fingerprint.
func (c *Batch) MarshalJSON() ([]byte, error) {
	type named struct {
		Command string  `json:"command"`
		Body    Command `json:"body"`
	}
	list := make([]named, len(c.Commands))
	for i, one := range c.Commands {
		list[i] = named{NameOf(one), one}
	}
	return json.Marshal(list)
}

func (c *Batch) check() *demand.Rejection {
	if n := len(c.Commands); n == 0 || n > MaxBatch {
		return demand.Invalid("commands", "a batch has 1 to %d commands, not %d", MaxBatch, n)
	}
	for i, one := range c.Commands {
		if _, nested := one.(*Batch); nested {
			return demand.Invalid("commands", "a batch holds no batches")
		}
		if r := one.check(); r != nil {
			return c.at(i, r)
		}
	}
	return nil
}

// at adds to a rejection which of the commands it is about.
func (c *Batch) at(i int, r *demand.Rejection) *demand.Rejection {
	told := *r
	told.Message = fmt.Sprintf("command %d (%s): %s", i, NameOf(c.Commands[i]), r.Message)
	told.Facts.Command = &i
	return &told
}

func (c *Batch) forProject(s *ledger.State, project string) *demand.Rejection {
	for i, one := range c.Commands {
		if r := forProject(one, s, project); r != nil {
			return c.at(i, r)
		}
	}
	return nil
}

// decide forks the State, decides the commands against the fork in order,
// and applies each command's events to the fork before it decides the next.
func (c *Batch) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	// A commit changes a consumer once at most. What commands before the batch have changed
	// in the present one is no conflict: it comes in the next one then, as each command does.
	fork, place := s.Fork(), s.Next()+1
	var all []ledger.Event
	changed := make(map[ledger.UUID]bool)
	for i, one := range c.Commands {
		events, rejection := one.decide(fork)
		if rejection == nil {
			rejection = limited(one, fork, events)
		}
		if rejection != nil {
			return nil, c.at(i, rejection)
		}
		if len(events) == 0 {
			continue
		}
		touched := ledger.ConsumersChanged(events)
		for _, id := range touched {
			if changed[id] {
				return nil, c.at(i, demand.Invalid("consumer", "consumer %s is in the batch twice", id))
			}
		}
		for _, id := range touched {
			changed[id] = true
		}
		if err := fork.Apply(place, &ledger.Record{Time: fork.LastTime(), Events: events}); err != nil {
			// The command conflicts with an earlier one of the batch.
			return nil, c.at(i, demand.Invalid("commands", "conflicts with the commands before it: %v", err))
		}
		all = append(all, events...)
	}
	return all, nil
}
