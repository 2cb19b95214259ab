package present

import (
	"context"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

const maxHolders = 1000

// Holders returns the holders of a provider, and of those below it if they are asked
// for, with their owners; nil if there is no such provider.
func Holders(
	ctx context.Context, views *projector.Projector, v projector.View, q *wire.HoldersQuery,
) (*wire.Holders, error) {
	limit, err := rowsAsked(q.Limit, maxHolders, maxHolders)
	if err != nil {
		return nil, err
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
	of := []ledger.UUID{q.Provider}
	if found && q.Tree {
		if of, err = below(ctx, views, v, p); err != nil {
			return nil, err
		}
	}
	err = v.HoldersOf(of, func(c *ledger.Consumer) bool {
		if c.UUID.Compare(q.After) <= 0 {
			return true
		}
		if len(answer.Holders) == limit {
			answer.Next = &answer.Holders[limit-1].Consumer
			return false
		}
		here := *c
		here.Allocations = nil
		for _, id := range of {
			here.Allocations = append(here.Allocations, c.HeldOf(id)...)
		}
		answer.Holders = append(answer.Holders, *AllocationsOf(&here, classes))
		return true
	})
	return answer, err
}

func below(
	ctx context.Context, views *projector.Projector, v projector.View, top *ledger.Provider,
) ([]ledger.UUID, error) {
	tree, err := treeOf(ctx, views, v, top.UUID)
	ids := []ledger.UUID{top.UUID}
	for i := 0; i < len(ids); i++ {
		for _, p := range tree {
			if p.Parent == ids[i] {
				ids = append(ids, p.UUID)
			}
		}
	}
	return ids, err
}

func treeOf(
	ctx context.Context, views *projector.Projector, v projector.View, id ledger.UUID,
) (tree []*ledger.Provider, err error) {
	world, now := views.World()
	if now.Sequence() != v.Sequence() {
		if world, err = v.World(ctx); err != nil {
			return nil, err
		}
	}
	if found, exists := world.Provider(id); exists {
		world.Tree(found.Root, func(p *ledger.Provider) { tree = append(tree, p) })
	}
	return tree, nil
}
