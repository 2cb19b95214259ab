package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// UpdateNodeAllocation changes an allocation's name and extra by a JSON Patch
// (Ironic 1.57). Nothing else can change; a new name does not lead to another
// node.
type UpdateNodeAllocation struct {
	noConsumers `json:"-"`

	Allocation ledger.UUID      `json:"allocation"`
	Patch      []PatchOperation `json:"patch"`
}

func (c *UpdateNodeAllocation) check() *demand.Rejection {
	for _, op := range c.Patch {
		if field := op.Field(); field != "name" && field != "extra" || op.Path != "/name" && field == "name" {
			return demand.Refuse(
				demand.CodeInvalid, demand.Facts{Field: "patch", Name: field},
				"Cannot patch %s. Only the following can be updated: name, extra", op.Path,
			)
		}
	}
	return cmp.Or(checkUUID("allocation", c.Allocation), checkPatch(c.Patch))
}

// allocationFields are the fields that a patch can change.
type allocationFields struct {
	Name  *string         `json:"name"`
	Extra ledger.Document `json:"extra"`
}

func (c *UpdateNodeAllocation) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideNodeAllocation(s, c.Allocation, project)
}

func (c *UpdateNodeAllocation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	a, ok := s.NodeAllocation(c.Allocation)
	if !ok {
		return nil, nodeAllocationNotFound(c.Allocation)
	}
	var after allocationFields
	if rejection := applyPatch(c.Patch, allocationFields{Name: orNil(a.Name), Extra: a.Extra}, &after); rejection != nil {
		return nil, rejection
	}
	name := deref(after.Name)
	if rejection := checkAllocationName(name); rejection != nil {
		return nil, rejection
	}
	if holder, taken := s.NodeAllocationNamed(name); taken && holder != a.UUID {
		return nil, nodeAllocationExists("name", name)
	}
	if name == a.Name && after.Extra == a.Extra {
		return nil, nil
	}
	return []ledger.Event{ledger.NodeAllocationUpdated{Allocation: a.UUID, Name: name, Extra: after.Extra}}, nil
}

func nodeAllocationNotFound(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(
		demand.CodeNodeAllocationNotFound, demand.Facts{Allocation: &id}, "Allocation %s could not be found.", id,
	)
}
