package contents

import (
	"cmp"
	"math"
	"slices"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

const firstCustomClass = int64(ledger.FirstCustomClass)

// ForPlacement returns rows as Placement's tables hold them. Ids count from 1, in the order of creation,
// because Placement lists rows by them; consumers are in the order of their last change. A standard class has
// its position in the list of standard classes, and custom ones follow from 10000 on. A consumer's generation
// stays, because services may have read it; if it does not fit into Placement's column, it begins again from 1.
func ForPlacement(rows *Rows) (*Rows, error) {
	names, err := commands.NewAddStandardNames(ledger.NilUUID)
	if err != nil {
		return nil, err
	}
	out := *rows
	next := firstCustomClass
	classes := make(map[int64]int64, len(rows.Classes))
	out.Classes = slices.Clone(rows.Classes)
	for i := range out.Classes {
		class := &out.Classes[i]
		id := int64(slices.Index(names.Classes, class.Name))
		if id < 0 {
			id, next = next, next+1
		}
		classes[class.ID], class.ID = id, id
	}
	providers := out.numberProviders(rows)
	out.Inventories = slices.Clone(rows.Inventories)
	for i := range out.Inventories {
		row := &out.Inventories[i]
		row.ID, row.Provider, row.Class = int64(i+1), providers[row.Provider], classes[row.Class]
	}
	out.ProviderTraits = ofProviders(rows.ProviderTraits, providers)
	out.ProviderAggregates = ofProviders(rows.ProviderAggregates, providers)
	places := out.numberConsumers(rows)
	out.Allocations = slices.Clone(rows.Allocations)
	slices.SortStableFunc(out.Allocations, func(a, b AllocationRow) int {
		return cmp.Compare(places[a.Consumer], places[b.Consumer])
	})
	for i := range out.Allocations {
		row := &out.Allocations[i]
		row.ID, row.Provider, row.Class = int64(i+1), providers[row.Provider], classes[row.Class]
		// Placement makes all of a consumer's rows anew when one changes.
		row.Times = Times{Created: max(row.Created, row.Updated)}
	}
	return &out, nil
}

// numberProviders gives providers the ids 1, 2 and so on, and returns these by the ids in rows.
func (r *Rows) numberProviders(rows *Rows) map[int64]int64 {
	r.Providers = slices.Clone(rows.Providers)
	slices.SortStableFunc(r.Providers, func(a, b ProviderRow) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	ids := make(map[int64]int64, len(r.Providers))
	for i := range r.Providers {
		ids[r.Providers[i].ID] = int64(i + 1)
	}
	for i := range r.Providers {
		p := &r.Providers[i]
		p.ID = int64(i + 1)
		for _, reference := range []*Optional{&p.Parent, &p.Root} {
			reference.Value = ids[reference.Value]
		}
	}
	return ids
}

// numberConsumers gives consumers the ids 1, 2 and so on, and returns these by their uuids.
func (r *Rows) numberConsumers(rows *Rows) map[string]int64 {
	r.Consumers = slices.Clone(rows.Consumers)
	slices.SortStableFunc(r.Consumers, func(a, b ConsumerRow) int {
		return cmp.Or(cmp.Compare(max(a.Created, a.Updated), max(b.Created, b.Updated)), cmp.Compare(a.ID, b.ID))
	})
	places := make(map[string]int64, len(r.Consumers))
	for i := range r.Consumers {
		c := &r.Consumers[i]
		c.ID, places[c.UUID] = int64(i+1), int64(i+1)
		if g := &c.Generation; g.Value > math.MaxInt32 {
			g.Value = (g.Value-1)%math.MaxInt32 + 1
		}
	}
	return places
}

func ofProviders(pairs []PairRow, ids map[int64]int64) []PairRow {
	pairs = slices.Clone(pairs)
	for i := range pairs {
		pairs[i].Provider = ids[pairs[i].Provider]
	}
	return pairs
}
