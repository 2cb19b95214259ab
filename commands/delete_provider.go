package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteProvider removes a provider with its inventories, traits and
// aggregate memberships. It must have no children and no allocations.
type DeleteProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (c *DeleteProvider) check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *DeleteProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	var child *ledger.UUID
	s.Children(c.Provider, func(id ledger.UUID) bool { child = &id; return false })
	if child != nil {
		return nil, demand.Refuse(
			demand.CodeProviderHasChild, demand.Facts{Provider: &c.Provider, Name: child.String()},
			"provider %s has children, %s among them", c.Provider, child,
		)
	}
	if used := p.InUse(); used != nil {
		return nil, demand.Refuse(
			demand.CodeProviderInUse, demand.Facts{Provider: &c.Provider, Classes: classNames(s, used)},
			"provider %s has allocations", c.Provider,
		)
	}
	return []ledger.Event{ledger.ProviderDeleted{Provider: c.Provider}}, nil
}

func classNames(s *ledger.State, ids []ledger.ClassID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = s.Classes().Name(id)
	}
	return names
}
