package placementapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

func (s *Source) rows(ctx context.Context, r *reading) (*contents.Rows, error) {
	b := &rowsOf{
		rows: &contents.Rows{
			Kind: "placement", Source: s.placement.URL, Schema: "API " + s.version,
			ReadAt: time.Now().UnixNano(), Untold: Untold,
		},
		types: s.types,
	}
	b.rows.Where = b.where
	if err := s.readNames(ctx, b); err != nil {
		return nil, s.explain(err)
	}
	for _, p := range r.providers {
		b.id(contents.Providers, p.UUID)
	}
	for _, p := range r.providers {
		b.provider(p, r.parts[p.UUID])
	}
	for _, p := range r.providers {
		for _, id := range r.parts[p.UUID].consumers {
			if number, first := b.ID(contents.Consumers, id); first {
				b.consumer(number, id, r.consumers[id])
			}
		}
	}
	return b.rows, nil
}

// readNames reads classes and traits. Those of the API are in the order in which they were made.
func (s *Source) readNames(ctx context.Context, b *rowsOf) error {
	var all struct {
		Classes []struct {
			Name string `json:"name"`
		} `json:"resource_classes"`
		Traits []string `json:"traits"`
	}
	for _, path := range []string{"/resource_classes", "/traits"} {
		if err := s.must(ctx, path, &all); err != nil {
			return err
		}
	}
	for _, class := range all.Classes {
		b.Named(contents.Classes, &b.rows.Classes, class.Name)
	}
	for _, name := range all.Traits {
		b.Named(contents.Traits, &b.rows.Traits, name)
	}
	return nil
}

// rowsOf makes rows. The API has no ids, so they are made here.
type rowsOf struct {
	contents.IDs

	rows  *contents.Rows
	types bool
}

func (b *rowsOf) id(table contents.Table, text string) int64 {
	id, _ := b.ID(table, text)
	return id
}

func (b *rowsOf) where(table contents.Table, id int64) string {
	if name, known := b.Name(table, id); known {
		return fmt.Sprintf("%s %s", table, name)
	}
	return fmt.Sprintf("%s row %d", table, id)
}

func (b *rowsOf) optional(uuid string) contents.Optional {
	if uuid == "" {
		return contents.Optional{}
	}
	return contents.Some(b.id(contents.Providers, uuid))
}

func (b *rowsOf) provider(p provider, of parts) {
	at := contents.Times{Created: b.rows.ReadAt}
	id := b.id(contents.Providers, p.UUID)
	b.rows.Providers = append(b.rows.Providers, contents.ProviderRow{
		ID: id, UUID: p.UUID, Name: p.Name, Generation: contents.Some(p.Generation), Parent: b.optional(p.Parent),
		Root: b.optional(p.Root), Times: at,
	})
	for _, class := range slices.Sorted(maps.Keys(of.inventories)) {
		inv := of.inventories[class]
		b.rows.Inventories = append(b.rows.Inventories, contents.InventoryRow{
			ID: b.id(contents.Inventories, p.UUID+" "+class), Provider: id,
			Class: b.Named(contents.Classes, &b.rows.Classes, class),
			Total: inv.Total, Reserved: inv.Reserved, MinUnit: inv.MinUnit, MaxUnit: inv.MaxUnit, StepSize: inv.StepSize,
			Ratio: inv.Ratio, Times: at,
		})
	}
	for _, class := range slices.Sorted(maps.Keys(of.used)) {
		if used, seen := of.used[class], of.seen[class]; used > seen {
			b.rows.Unseen = append(b.rows.Unseen, contents.UnseenRow{
				ID: b.id(contents.Unseen, p.UUID+" "+class), Provider: id,
				Class: b.Named(contents.Classes, &b.rows.Classes, class), Used: used, Seen: seen,
			})
		}
	}
	for _, name := range of.traits {
		b.rows.ProviderTraits = append(b.rows.ProviderTraits, contents.PairRow{
			Provider: id, Other: b.Named(contents.Traits, &b.rows.Traits, name),
		})
	}
	for _, uuid := range of.aggregates {
		b.rows.ProviderAggregates = append(b.rows.ProviderAggregates, contents.PairRow{
			Provider: id, Other: b.Named(contents.Aggregates, &b.rows.Aggregates, uuid),
		})
	}
}

func (b *rowsOf) consumer(id int64, uuid string, c consumer) {
	at := contents.Times{Created: b.rows.ReadAt}
	row := contents.ConsumerRow{
		ID: id, UUID: uuid, Generation: contents.Some(c.Generation), Times: at,
		Project: contents.Some(b.Named(contents.Projects, &b.rows.Projects, c.Project)),
		User:    contents.Some(b.Named(contents.Users, &b.rows.Users, c.User)),
	}
	if b.types && c.Type != "" && c.Type != "unknown" {
		row.Type = contents.Some(b.Named(contents.Types, &b.rows.Types, c.Type))
	}
	b.rows.Consumers = append(b.rows.Consumers, row)
	for _, provider := range slices.Sorted(maps.Keys(c.Allocations)) {
		resources := c.Allocations[provider].Resources
		for _, class := range slices.Sorted(maps.Keys(resources)) {
			b.rows.Allocations = append(b.rows.Allocations, contents.AllocationRow{
				ID:       b.id(contents.Allocations, uuid+" "+provider+" "+class),
				Provider: b.id(contents.Providers, provider), Class: b.Named(contents.Classes, &b.rows.Classes, class),
				Consumer: uuid, Used: resources[class], Times: at,
			})
		}
	}
}
