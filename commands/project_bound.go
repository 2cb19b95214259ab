package commands

import (
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// forProject returns the reason for which a client that is bound to a project may
// not submit a command, or nil.
func forProject(c Command, s *ledger.State, project string) *demand.Rejection {
	r := c.forProject(s, project)
	if r == notForProjects {
		return foreign(project, "%s", NameOf(c))
	}
	return r
}

// Foreign returns the reason for which a client that is bound to a project may not
// submit what it submits, or nil.
func Foreign(s Submission, state *ledger.State) *demand.Rejection {
	if s.Project == "" {
		return nil
	}
	return forProject(s.Command, state, s.Project)
}

// operatorsOnly is embedded by commands that clients which are bound to a project
// may not submit. It names no consumers, unless the command does.
type operatorsOnly struct{ noConsumers }

var notForProjects = &demand.Rejection{Code: demand.CodeForbidden, Message: "not for clients that are bound to a project"}

func (operatorsOnly) forProject(*ledger.State, string) *demand.Rejection { return notForProjects }

func foreign(project, format string, args ...any) *demand.Rejection {
	return &demand.Rejection{
		Code:    demand.CodeForbidden,
		Message: fmt.Sprintf(format, args...) + fmt.Sprintf(" is not for a client that is bound to project %s", project),
	}
}

// checkOwners requires every consumer to belong to the project, before and after
// the command.
func checkOwners(s *ledger.State, allocations []ConsumerAllocations, project string) *demand.Rejection {
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

// checkHolder requires a consumer, if it exists, to belong to the project. About
// a consumer of others it tells only that it may not be touched.
func checkHolder(s *ledger.State, consumer ledger.UUID, project string) *demand.Rejection {
	if c, exists := s.Consumer(consumer); exists && c.Owner.Project != project {
		return foreign(project, "consumer %s", consumer)
	}
	return nil
}

// hideHolder is checkHolder for a command that needs the consumer: one of others looks
// missing.
func hideHolder(s *ledger.State, consumer ledger.UUID, project string) *demand.Rejection {
	if checkHolder(s, consumer, project) != nil {
		return consumerNotFound(consumer)
	}
	return nil
}

// hideNodeAllocation has the node allocations of others look missing.
func hideNodeAllocation(s *ledger.State, id ledger.UUID, project string) *demand.Rejection {
	if a, exists := s.NodeAllocation(id); exists && a.Owner != project {
		return nodeAllocationNotFound(id)
	}
	return nil
}
