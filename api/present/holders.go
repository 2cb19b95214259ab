package present

import (
	"fmt"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// maxHolders is how many holders one answer has at most.
const maxHolders = 1000

// Holders returns the holders of a provider, with their owners; nil if there is
// no such provider.
func Holders(v projector.View, q *wire.HoldersQuery) (*wire.Holders, error) {
	limit := q.Limit
	if limit == 0 {
		limit = maxHolders
	}
	if limit < 1 || limit > maxHolders {
		return nil, fmt.Errorf("%w: limit: %d is not a number from 1 to %d", ErrQuery, q.Limit, maxHolders)
	}
	answer := &wire.Holders{Provider: q.Provider, Holders: []wire.Allocations{}}
	node, err := Node(v, q.Provider)
	if err != nil {
		return nil, err
	}
	p, found, err := v.Provider(q.Provider)
	if err != nil || !found && node == nil {
		return nil, err
	}
	answer.Node = node
	if found {
		answer.Name = p.Name
	} else {
		answer.Name = node.Name
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	err = v.ProviderConsumers(q.Provider, func(c *ledger.Consumer) bool {
		if c.UUID.Compare(q.After) <= 0 {
			return true
		}
		if len(answer.Holders) == limit {
			answer.Next = &answer.Holders[limit-1].Consumer
			return false
		}
		here := *c
		here.Allocations = c.HeldOf(q.Provider)
		answer.Holders = append(answer.Holders, *AllocationsOf(&here, classes))
		return true
	})
	return answer, err
}
