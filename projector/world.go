package projector

import (
	"context"
	"slices"
	"sync"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// World returns the newest providers, indexed, and the View of the same moment.
// It costs next to nothing, because later commits copy what they change.
func (p *Projector) World() (*candidates.World, View) {
	m := p.models.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.Snapshot(), m.view()
}

// World returns the providers of the view's moment, indexed. For the past it
// reads them from the read models, which takes time in proportion to their
// number: take a place first. The last few moments are kept.
func (v View) World(ctx context.Context) (*candidates.World, error) {
	return v.p.past.world(ctx, v.sequence, func() (*candidates.World, error) {
		list, err := v.allProviders()
		if err != nil {
			return nil, err
		}
		return candidates.NewWorld(list), nil
	})
}

func (m *models) loadIndex() error {
	list, err := m.view().allProviders()
	if err == nil {
		m.index.Add(list)
	}
	return err
}

func (v View) allProviders() ([]*ledger.Provider, error) {
	var list []*ledger.Provider
	err := v.Providers(func(p *ledger.Provider) bool {
		list = append(list, p)
		return true
	})
	return list, err
}

// keptWorlds is how many past moments are kept: enough to compare two, and a
// little more. Each holds all providers of its moment.
const keptWorlds = 4

// pastWorlds keeps the Worlds that were used last, the newest at the end.
type pastWorlds struct {
	// building is full while a World is built. They are built one at a time,
	// however many are asked for, so that memory and time for the past are
	// bounded.
	building chan struct{} // has one place

	mu   sync.Mutex
	kept []keptWorld // guarded by mu
}

type keptWorld struct {
	sequence uint64
	world    *candidates.World
}

// world returns the World of a moment, and builds it if it is not kept. Callers
// that ask for the same moment meanwhile share it. An error is not kept.
func (c *pastWorlds) world(
	ctx context.Context, sequence uint64, build func() (*candidates.World, error),
) (*candidates.World, error) {
	if world := c.find(sequence); world != nil {
		return world, nil
	}
	select {
	case c.building <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.building }()
	if world := c.find(sequence); world != nil {
		return world, nil
	}
	world, err := build()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, keptWorld{sequence, world})
	if len(c.kept) > keptWorlds {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	return world, nil
}

// find looks among the kept Worlds; nil: it is not there. The World that it finds
// becomes the newest.
func (c *pastWorlds) find(sequence uint64) *candidates.World {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.kept, func(k keptWorld) bool { return k.sequence == sequence })
	if i < 0 {
		return nil
	}
	found := c.kept[i]
	c.kept = append(slices.Delete(c.kept, i, i+1), found)
	return found.world
}
