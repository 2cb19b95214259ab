package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteInventories removes all classes from a provider (microversion 1.5).
// Nothing of them may be allocated. The provider's generation moves by 1, even if
// it had none.
type DeleteInventories struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (c *DeleteInventories) check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *DeleteInventories) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	if used := p.InUse(); used != nil {
		return nil, inventoryInUse(c.Provider, classNames(s, used))
	}
	return []ledger.Event{ledger.InventoriesReplaced{Provider: c.Provider, Generation: p.Generation + 1}}, nil
}
