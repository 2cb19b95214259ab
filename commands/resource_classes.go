package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func checkCustomClass(name string) *demand.Rejection {
	if !isCustom(name) {
		return demand.Invalid("name", "%q is not the name of a custom resource class", name)
	}
	return nil
}

func classExists(name string) *demand.Rejection {
	return demand.Refuse(demand.CodeClassExists, demand.Facts{Class: name}, "resource class %s exists", name)
}

// customClass finds a class that clients may change.
func customClass(s *ledger.State, name string) (ledger.ClassID, *demand.Rejection) {
	id, ok := s.Classes().ID(name)
	if !ok {
		return 0, demand.ClassUnknown(name)
	}
	if id < ledger.FirstCustomClass {
		return 0, demand.Refuse(
			demand.CodeClassStandard, demand.Facts{Class: name}, "resource class %s is a standard one", name,
		)
	}
	return id, nil
}
