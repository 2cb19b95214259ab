package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Impossible is a command whose events contradict the State.
type Impossible struct{ CreateTrait }

func (*Impossible) decide(*ledger.State) ([]ledger.Event, *demand.Rejection) {
	return []ledger.Event{ledger.TraitDeleted{Name: "CUSTOM_NOT_THERE"}}, nil
}
