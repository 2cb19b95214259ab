package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ReplaceInventories sets all inventories of a provider. Classes in use must
// stay, but may shrink below their usage. The provider's generation moves by 1
// even if nothing changes.
type ReplaceInventories struct {
	operatorsOnly `json:"-"`

	Provider    ledger.UUID `json:"provider"`
	Generation  *int64      `json:"generation,omitempty"` // the provider's; absent: not checked
	Inventories []Inventory `json:"inventories"`
	// RefuseFullyReserved refuses an inventory without capacity, as
	// Placement does below 1.26.
	RefuseFullyReserved bool `json:"refuse_fully_reserved,omitempty"`
}

func (c *ReplaceInventories) check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), checkInventories(c.Inventories))
}

func (c *ReplaceInventories) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if r := checkProviderGeneration(p, c.Generation); r != nil {
		return nil, r
	}
	if nodeOf(s, p.UUID) != nil {
		return nil, repeatsNode(s, p, c.Inventories)
	}
	for _, inv := range c.Inventories {
		if r := inv.checkCapacity(c.Provider, c.RefuseFullyReserved); r != nil {
			return nil, r
		}
	}
	kept, rejection := classIDs(s, c.Inventories)
	if rejection != nil {
		return nil, rejection
	}
	var dropped []ledger.ClassID
	for _, id := range p.InUse() {
		if !kept[id] {
			dropped = append(dropped, id)
		}
	}
	if dropped != nil {
		return nil, inventoryInUse(c.Provider, classNames(s, dropped))
	}
	return []ledger.Event{ledger.InventoriesReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Inventories: recordsOf(c.Inventories),
	}}, nil
}

// classIDs looks up the classes of inventories.
func classIDs(s *ledger.State, inventories []Inventory) (map[ledger.ClassID]bool, *demand.Rejection) {
	ids := make(map[ledger.ClassID]bool, len(inventories))
	for _, inv := range inventories {
		id, ok := s.Classes().ID(inv.Class)
		if !ok {
			return nil, demand.ClassUnknown(inv.Class)
		}
		ids[id] = true
	}
	return ids, nil
}
