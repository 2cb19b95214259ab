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

// Check implements Command.
func (c *UpdateProvider) Check() *demand.Rejection {
	if c.Reparent != nil && c.Reparent.Provider != c.Rename.Provider {
		return demand.Invalid("reparent.provider", "is not the provider to rename")
	}
	return c.Rename.Check()
}

// Decide implements Command.
func (c *UpdateProvider) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	var events []ledger.Event
	if c.Reparent != nil {
		moved, rejection := c.Reparent.Decide(s)
		if rejection != nil {
			return nil, rejection
		}
		events = append(events, moved...)
	}
	renamed, rejection := c.Rename.Decide(s)
	if rejection != nil {
		return nil, rejection
	}
	return append(events, renamed...), nil
}
