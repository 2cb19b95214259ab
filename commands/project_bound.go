package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// checkProject refuses commands about what is not a project's to a client
// that is bound to it.
func checkProject(s *ledger.State, c Command, project string) *Rejection {
	switch c := c.(type) {
	case *AllocateForConsumers:
		return checkOwners(s, c.Allocations, project)
	case *Reserve:
		return checkOwners(s, c.Allocations, project)
	case *ReleaseConsumer:
		return checkHolder(s, c.Consumer, project)
	case *ConfirmReservation:
		return checkHolder(s, c.Consumer, project)
	case *CancelReservation:
		return checkHolder(s, c.Consumer, project)
	case *RequestNodeAllocation:
		if c.Owner != project {
			return foreign(project, "the owner %q", c.Owner)
		}
		return nil
	case *UpdateNodeAllocation:
		return checkNodeAllocationOwner(s, c.Allocation, project)
	case *ReleaseNodeAllocation:
		return checkNodeAllocationOwner(s, c.Allocation, project)
	case *Batch:
		for i, one := range c.Commands {
			if r := checkProject(s, one, project); r != nil {
				return c.at(i, r)
			}
		}
		return nil
	}
	return foreign(project, "%s", c.CommandName())
}

func foreign(project, format string, args ...any) *Rejection {
	return &Rejection{
		Code:    CodeForbidden,
		Message: fmt.Sprintf(format, args...) + fmt.Sprintf(" is not for a client that is bound to project %s", project),
	}
}

// checkOwners wants every consumer to be the project's, before and after.
func checkOwners(s *ledger.State, allocations []ConsumerAllocations, project string) *Rejection {
	for i := range allocations {
		if allocations[i].Project != project {
			return foreign(project, "a consumer of project %s", allocations[i].Project)
		}
		if r := checkHolder(s, allocations[i].Consumer, project); r != nil {
			return r
		}
	}
	return nil
}

// checkHolder wants a consumer, if it exists, to be the project's. Of others
// it does not say more than that it may not be touched.
func checkHolder(s *ledger.State, consumer ledger.UUID, project string) *Rejection {
	if c, exists := s.Consumer(consumer); exists && c.Owner.Project != project {
		return foreign(project, "consumer %s", consumer)
	}
	return nil
}

func checkNodeAllocationOwner(s *ledger.State, id ledger.UUID, project string) *Rejection {
	if a, exists := s.NodeAllocation(id); exists && a.Owner != project {
		return foreign(project, "allocation %s", id)
	}
	return nil
}
