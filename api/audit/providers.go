package audit

import (
	"context"

	"github.com/allot-project/allot/ledger"
)

// Providers is the answer of GET /audit/providers: all providers, in short.
type Providers struct {
	Sequence  uint64          `json:"sequence"` // sequence of the commit that the answer holds for
	Providers []ShortProvider `json:"providers"`
	// Incomplete means that there are more providers than one answer holds.
	Incomplete bool `json:"incomplete,omitempty"`
}

// ShortProvider is a provider with its usage.
type ShortProvider struct {
	Provider    ledger.UUID      `json:"provider"`
	Name        string           `json:"name"`
	Parent      *ledger.UUID     `json:"parent,omitempty"`
	Generation  int64            `json:"generation"`
	Inventories []ShortInventory `json:"inventories,omitempty"`
}

// ShortInventory is the capacity and the usage of a class.
type ShortInventory struct {
	Class    string `json:"class"`
	Total    int64  `json:"total"`
	Capacity int64  `json:"capacity"` // (total - reserved) * allocation_ratio
	Used     int64  `json:"used"`
}

const maxProviders = 50_000

func (q entities) providers(_ context.Context, p *parameters) (any, error) {
	view, err := q.look(p, maxProviders, maxProviders)
	if err != nil {
		return nil, err
	}
	list := &Providers{Sequence: view.Sequence(), Providers: []ShortProvider{}}
	err = view.Providers(func(p *ledger.Provider) bool {
		if list.Incomplete = len(list.Providers) == maxProviders; list.Incomplete {
			return false
		}
		list.Providers = append(list.Providers, shortProvider(p, view.classes))
		return true
	})
	return list, err
}

func shortProvider(p *ledger.Provider, classes *ledger.ClassTable) ShortProvider {
	s := ShortProvider{Provider: p.UUID, Name: p.Name, Generation: p.Generation}
	if !p.Parent.IsNil() {
		s.Parent = &p.Parent
	}
	for i := range p.Inventories {
		inv := &p.Inventories[i]
		s.Inventories = append(s.Inventories, ShortInventory{classes.Name(inv.Class), inv.Total, inv.Units(), inv.Used})
	}
	return s
}
