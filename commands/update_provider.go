package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// UpdateProvider renames and re-parents a provider in one step, as
// Placement's PUT /resource_providers/{uuid} does.
type UpdateProvider struct {
	operatorsOnly `json:"-"`

	Rename   RenameProvider    `json:"rename"`
	Reparent *ReparentProvider `json:"reparent,omitempty"` // absent: the parent stays
}

func (c *UpdateProvider) check() *demand.Rejection {
	if c.Reparent != nil && c.Reparent.Provider != c.Rename.Provider {
		return demand.Invalid("reparent.provider", "is not the provider to rename")
	}
	return c.Rename.check()
}

func (c *UpdateProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	var events []ledger.Event
	if c.Reparent != nil {
		moved, rejection := c.Reparent.decide(s)
		if rejection != nil {
			return nil, rejection
		}
		events = append(events, moved...)
	}
	renamed, rejection := c.Rename.decide(s)
	if rejection != nil {
		return nil, rejection
	}
	return append(events, renamed...), nil
}
