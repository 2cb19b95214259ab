package contents

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/allot-project/allot/ledger"
)

type provider struct {
	row    *ProviderRow
	event  ledger.ProviderImported
	parent *provider
	// inventoryRows are the ids of the inventories, 0 for one that a rule made.
	inventoryRows []int64
	used          map[string]int64 // by class
	classes       map[string]int   // places in event.Inventories
	order         order
}

// order is a place in the order of creation: parents come before children.
type order struct {
	created, id int64
	depth       int
}

func (o order) compare(other order) int {
	return cmp.Or(cmp.Compare(o.created, other.created), cmp.Compare(o.id, other.id), cmp.Compare(o.depth, other.depth))
}

func timeText(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }

func (b *builder) readProviders() {
	byUUID, taken := make(map[ledger.UUID]*ProviderRow), make(map[string]bool)
	for i := range b.rows.Providers {
		row := &b.rows.Providers[i]
		b.known[row.ID] = true
		if p := b.readProvider(row, byUUID); p != nil {
			b.providers[row.ID] = p
		}
	}
	b.hangTogether()
	b.dropChildren()
	for i := range b.rows.Providers {
		if p := b.providers[b.rows.Providers[i].ID]; p != nil {
			b.ordered = append(b.ordered, p)
			b.take()
		}
	}
	for _, p := range b.ordered {
		b.rename(p, taken)
	}
	for _, p := range b.ordered {
		b.findRoot(p)
		b.place(p)
	}
	slices.SortFunc(b.ordered, func(x, y *provider) int { return x.order.compare(y.order) })
}

// maxGeneration leaves room to count on, and is the last that JSON has exactly.
const maxGeneration = 1 << 53

// readProvider reads a row by itself; nil: it is not imported.
func (b *builder) readProvider(row *ProviderRow, byUUID map[ledger.UUID]*ProviderRow) *provider {
	id, usual, isUUID := idOf(row.UUID)
	switch {
	case b.refusesText(row.UUID+row.Name, Providers, row.ID):
		return nil
	case !isUUID:
		b.note(providerUUIDInvalid, Providers, row.ID, "%q", row.UUID)
		return nil
	case byUUID[id] != nil:
		b.note(providerUUIDTwice, Providers, row.ID, "%q is also %s", row.UUID, b.rows.where(Providers, byUUID[id].ID))
		return nil
	case row.Generation.Value < 0 || row.Generation.Value > maxGeneration:
		b.note(generationInvalid, Providers, row.ID, "%s has generation %d", id, row.Generation.Value)
		return nil
	case !usual:
		b.note(uuidSpelling, Providers, row.ID, "%q", row.UUID)
	}
	byUUID[id] = row
	if !row.Generation.Set {
		b.note(generationMissing, Providers, row.ID, "%s", id)
	}
	t := b.times(row.Times, Providers, row.ID)
	return &provider{
		row: row, used: make(map[string]int64), classes: make(map[string]int),
		event: ledger.ProviderImported{
			Provider: id, Name: row.Name, Generation: row.Generation.Value, CreatedAt: t.Created, UpdatedAt: t.Updated,
			Counters: row.Counters, Draws: row.Draws, Origin: b.rows.where(Providers, row.ID),
		},
	}
}

// hangTogether finds parents. A provider whose parent does not exist, or that is
// its own ancestor, is not imported.
func (b *builder) hangTogether() {
	for i := range b.rows.Providers {
		row := &b.rows.Providers[i]
		p := b.providers[row.ID]
		if p == nil || !row.Parent.Set {
			continue
		}
		if !b.known[row.Parent.Value] {
			b.note(parentMissing, Providers, row.ID, "%s has the parent %d", p.event.Provider, row.Parent.Value)
			delete(b.providers, row.ID)
			continue
		}
		p.parent = b.providers[row.Parent.Value]
	}
	for i := range b.rows.Providers {
		row := &b.rows.Providers[i]
		if p := b.providers[row.ID]; p != nil && isBelowItself(p) {
			b.note(parentCycle, Providers, row.ID, "%s (%q)", p.event.Provider, row.Name)
			delete(b.providers, row.ID)
		}
	}
}

// isBelowItself reports whether a provider is its own ancestor. Brent's marks
// find the end of a walk that meets a cycle elsewhere.
func isBelowItself(p *provider) bool {
	mark, steps, limit := p, 0, 1
	for at := p.parent; at != nil; at = at.parent {
		if at == p {
			return true
		}
		if at == mark {
			return false
		}
		if steps++; steps == limit {
			mark, steps, limit = at, 0, limit*2
		}
	}
	return false
}

// dropChildren leaves out what is below a provider that is not imported.
func (b *builder) dropChildren() {
	for dropped := true; dropped; {
		dropped = false
		for i := range b.rows.Providers {
			row := &b.rows.Providers[i]
			if p := b.providers[row.ID]; p != nil && row.Parent.Set && b.providers[row.Parent.Value] == nil {
				b.note(withItsProvider, Providers, row.ID, "%s is below one", p.event.Provider)
				delete(b.providers, row.ID)
				dropped = true
			}
		}
	}
}

func (b *builder) rename(p *provider, taken map[string]bool) {
	name, own := p.event.Name, p.event.Provider.String()
	switch {
	case name == "":
		b.note(providerNameMissing, Providers, p.row.ID, "%s", own)
		name = own
	case taken[name]:
		b.note(providerNameTwice, Providers, p.row.ID, "%s is also called %q", own, name)
		name = own
	case utf8.RuneCountInString(name) > ledger.MaxNameRunes:
		b.note(providerNameLong, Providers, p.row.ID, "%s: %d characters", own, utf8.RuneCountInString(name))
	}
	for taken[name] {
		name += "_"
	}
	taken[name], p.event.Name = true, name
}

// findRoot compares the root of the row with the top of the parents.
func (b *builder) findRoot(p *provider) {
	top := p
	for top.parent != nil {
		top = top.parent
	}
	if p.parent != nil {
		p.event.Parent = p.parent.event.Provider
	}
	switch {
	case !p.row.Root.Set:
		b.note(rootMissing, Providers, p.row.ID, "%s", p.event.Provider)
	case p.row.Root.Value != top.row.ID:
		b.note(rootWrong, Providers, p.row.ID, "%s has the root %d, and is below %d",
			p.event.Provider, p.row.Root.Value, top.row.ID)
	}
}

// place finds the provider's place in the order of creation.
func (b *builder) place(p *provider) order {
	if p.order != (order{}) {
		return p.order
	}
	p.order = order{created: p.event.CreatedAt, id: p.row.ID}
	if p.parent == nil {
		return p.order
	}
	above := b.place(p.parent)
	if above.created > p.order.created {
		b.note(timeBackwards, Providers, p.row.ID, "made before its parent %s", p.parent.event.Provider)
		p.event.CreatedAt, p.event.UpdatedAt = above.created, max(above.created, p.event.UpdatedAt)
	}
	p.order = order{created: p.event.CreatedAt, id: max(p.row.ID, above.id), depth: above.depth + 1}
	return p.order
}

// owner finds the provider that a row is about; nil: the row is left out.
func (b *builder) owner(id int64, table Table, row int64) *provider {
	p := b.providers[id]
	if p == nil {
		if b.known[id] {
			b.note(withItsProvider, table, row, "provider %d", id)
		} else {
			b.note(referenceMissing, table, row, "no provider %d", id)
		}
	}
	return p
}

// readPairs reads what providers have, or are in, by the ids of rows; it returns which of these have providers.
func readPairs[T comparable](
	b *builder, table Table, pairs []PairRow, known map[int64]T, list func(*provider) *[]T, missing, has string,
) (used map[int64]bool) {
	used = make(map[int64]bool)
	for i, pair := range pairs {
		row := int64(i + 1)
		p := b.owner(pair.Provider, table, row)
		if p == nil {
			continue
		}
		one, exists := known[pair.Other]
		if !exists {
			b.note(referenceMissing, table, row, missing, p.event.Provider, pair.Other)
			continue
		}
		b.take()
		used[pair.Other] = true
		if slices.Contains(*list(p), one) {
			b.note(memberTwice, table, row, has, p.event.Provider, one)
			continue
		}
		*list(p) = append(*list(p), one)
	}
	return used
}

func (b *builder) readTraitsOfProviders() {
	readPairs(b, ProviderTraits, b.rows.ProviderTraits, b.traits, func(p *provider) *[]string { return &p.event.Traits },
		"provider %s has the trait %d", "provider %s has %s")
	for _, p := range b.ordered {
		slices.Sort(p.event.Traits)
	}
}

func (b *builder) readAggregates() {
	ids := make(map[int64]ledger.UUID, len(b.rows.Aggregates))
	for _, row := range b.rows.Aggregates {
		if !b.refusesText(row.Name, Aggregates, row.ID) {
			ids[row.ID], _, _ = idOf(row.Name)
		}
	}
	aggregates := func(p *provider) *[]ledger.UUID { return &p.event.Aggregates }
	members := readPairs(b, ProviderAggregates, b.rows.ProviderAggregates, ids, aggregates,
		"provider %s is in the aggregate %d", "provider %s is in %s")
	b.readAggregateRows(ids, members)
}

func (b *builder) readAggregateRows(ids map[int64]ledger.UUID, members map[int64]bool) {
	taken := make(map[ledger.UUID]bool)
	for _, row := range b.rows.Aggregates {
		id, readable := ids[row.ID]
		if !readable {
			continue // refused before
		}
		if !members[row.ID] {
			b.note(aggregateEmpty, Aggregates, row.ID, "%s", row.Name)
			continue
		}
		b.take()
		_, usual, isUUID := idOf(row.Name)
		switch {
		case taken[id]:
			b.note(aggregateTwice, Aggregates, row.ID, "%q", row.Name)
		case !isUUID:
			b.note(aggregateNotUUID, Aggregates, row.ID, "%q becomes %s", row.Name, id)
		case !usual:
			b.note(uuidSpelling, Aggregates, row.ID, "%q", row.Name)
		}
		taken[id] = true
	}
}

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

// putConsumers puts consumers into the plan, in the order of their last change, which lists keep, too.
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
