package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// obeyed reports whether a choice obeys the rules about other consumers: those
// may have moved since it was found.
func obeyed(s *ledger.State, prefer *demand.ClaimPreference, choice *demand.Choice) bool {
	if !prefer.Strict() {
		return true
	}
	list, _ := prefer.Nearness(func(id ledger.UUID) ([]ledger.Allocation, error) { // a State has no errors
		if c, exists := s.Consumer(id); exists {
			return c.Allocations, nil
		}
		return nil, nil
	})
	for i := range list {
		if list[i].Rule == wanted.PreferNear {
			continue
		}
		there := placesOf(s, list[i].Providers)
		for j := range choice.Members {
			here := placesOf(s, providersOf(&choice.Members[j]))
			if len(there) > 0 && anyNear(list[i].Reach, here, there) != (list[i].Rule == wanted.RequireNear) {
				return false
			}
		}
	}
	return true
}

func providersOf(chosen *wanted.Ranked) (ids []ledger.UUID) {
	for _, members := range chosen.Groups {
		for _, p := range members {
			ids = append(ids, p.UUID)
		}
	}
	return ids
}

// place is a provider with the root above it.
type place struct{ provider, root *ledger.Provider }

// placesOf are providers that do not share.
func placesOf(s *ledger.State, ids []ledger.UUID) (places []place) {
	for _, id := range ids {
		if p, exists := s.Provider(id); exists && !p.HasTrait(wanted.SharingTrait) {
			root, _ := s.Provider(p.Root)
			places = append(places, place{p, root})
		}
	}
	return places
}

func anyNear(reach wanted.Reach, here, there []place) bool {
	return slices.ContainsFunc(here, func(a place) bool {
		return slices.ContainsFunc(there, func(b place) bool {
			switch reach {
			case wanted.SameProvider:
				return a.provider.UUID == b.provider.UUID
			case wanted.SameTree:
				return a.root.UUID == b.root.UUID
			}
			return slices.ContainsFunc(a.aggregates(), func(id ledger.UUID) bool {
				return slices.Contains(b.aggregates(), id)
			})
		})
	})
}

func (p place) aggregates() []ledger.UUID {
	return slices.Concat(p.provider.Aggregates, p.root.Aggregates)
}
