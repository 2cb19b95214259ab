package contents

import (
	"cmp"
	"slices"
)

// noteOverCommitted finds inventories of which more is used than they have.
func (b *builder) noteOverCommitted() {
	for _, p := range b.ordered {
		for i := range p.event.Inventories {
			inv := &p.event.Inventories[i]
			if used := p.used[inv.Class]; p.inventoryRows[i] != 0 && float64(used) > inv.Capacity() {
				b.note(overCommitted, Inventories, p.inventoryRows[i], "provider %s: %d of %s used, %d there",
					p.event.Provider, used, inv.Class, inv.Units())
			}
		}
	}
}

// putProviders puts providers into the plan, in the order of their creation.
// Databases know times to the second. Providers of one second get a nanosecond
// each, in the order of their rows, so that lists keep that order.
func (b *builder) putProviders() {
	last := int64(-1 << 63)
	for _, p := range b.ordered {
		ev := p.event
		ev.CreatedAt = max(ev.CreatedAt, last+1)
		ev.UpdatedAt = max(ev.UpdatedAt, ev.CreatedAt)
		last = ev.CreatedAt
		b.plan.Providers = append(b.plan.Providers, ev)
	}
}

// putConsumers puts consumers into the plan, in the order of their last change,
// which lists keep, too.
func (b *builder) putConsumers() {
	slices.SortFunc(b.holders, func(x, y *holder) int {
		return cmp.Or(cmp.Compare(x.event.UpdatedAt, y.event.UpdatedAt), cmp.Compare(x.first, y.first))
	})
	last := int64(-1 << 63)
	for _, h := range b.holders {
		ev := h.event
		ev.UpdatedAt = max(ev.UpdatedAt, last+1)
		last = ev.UpdatedAt
		b.plan.Consumers = append(b.plan.Consumers, ev)
	}
}
