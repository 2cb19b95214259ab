package projector

import (
	"slices"
	"sync"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// World returns the newest providers, indexed, and the View of the same
// moment. It costs next to nothing: what later commits change is copied.
func (p *Projector) World() (*candidates.World, View) {
	m := p.models.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.Snapshot(), m.view()
}

// World returns the providers of the view's moment, indexed. For the past
// they are read from the read models, which takes time in proportion to their
// number; the last few moments that were asked for are kept.
func (v View) World() (*candidates.World, error) {
	return v.p.past.world(v)
}

// loadIndex fills the index at the start.
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

// keptWorlds is how many past moments are kept: enough for a comparison of
// two and a little more, as each holds all providers of its moment.
const keptWorlds = 4

// pastWorlds keeps the Worlds that were asked for last, the newest at the end.
type pastWorlds struct {
	mu   sync.Mutex
	kept []*keptWorld // guarded by mu
}

type keptWorld struct {
	sequence uint64
	once     sync.Once
	world    *candidates.World
	err      error
}

func (c *pastWorlds) world(v View) (*candidates.World, error) {
	k := c.entry(v.sequence)
	k.once.Do(func() {
		var list []*ledger.Provider
		if list, k.err = v.allProviders(); k.err == nil {
			k.world = candidates.NewWorld(list)
		}
	})
	return k.world, k.err
}

func (c *pastWorlds) entry(sequence uint64) *keptWorld {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &keptWorld{sequence: sequence}
	if i := slices.IndexFunc(c.kept, func(k *keptWorld) bool { return k.sequence == sequence }); i >= 0 {
		k = c.kept[i]
		c.kept = slices.Delete(c.kept, i, i+1)
	}
	c.kept = append(c.kept, k)
	if len(c.kept) > keptWorlds {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	return k
}
