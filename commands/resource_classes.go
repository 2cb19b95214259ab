package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

func checkCustomClass(name string) *Rejection {
	if !isCustom(name) {
		return invalid("name", "%q is not the name of a custom resource class", name)
	}
	return nil
}

func classExists(name string) *Rejection {
	return &Rejection{
		Code: CodeClassExists, Message: fmt.Sprintf("resource class %s exists", name), Facts: Facts{Class: name},
	}
}

// customClass finds a class that clients may change.
func customClass(s *ledger.State, name string) (ledger.ClassID, *Rejection) {
	id, ok := s.Classes().ID(name)
	if !ok {
		return 0, classUnknown(name)
	}
	if id < ledger.FirstCustomClass {
		return 0, &Rejection{
			Code: CodeClassStandard, Message: fmt.Sprintf("resource class %s is a standard one", name),
			Facts: Facts{Class: name},
		}
	}
	return id, nil
}
