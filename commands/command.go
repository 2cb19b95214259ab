package commands

import (
	"github.com/allot-project/allot/ledger"
)

// Command asks for a change. It is data: its JSON and msgpack forms are what
// clients submit.
type Command interface {
	// CommandName is the command's name in records, on NATS and in the docs.
	CommandName() string

	// Check finds what is wrong with the command whatever the State: a
	// missing field, an amount out of range. It changes nothing.
	Check() *Rejection

	// Decide answers what happens if the command is carried out now: events,
	// or why not. A command that has nothing to do answers no events.
	Decide(*ledger.State) ([]ledger.Event, *Rejection)

	// Consumers lists the consumers that the command names. A command waits
	// behind others that name the same, which spares the writer to decide it
	// in vain. It is no more than that: which consumers a command changes
	// follows from its events.
	Consumers() []ledger.UUID

	// ForProject says why a client that is bound to a project may not submit
	// the command: it is about what is not the project's. Of the things of
	// others it tells no more than that they may not be touched.
	ForProject(s *ledger.State, project string) *Rejection
}

// noConsumers is embedded by commands that name no consumer.
type noConsumers struct{}

// Consumers implements Command.
func (noConsumers) Consumers() []ledger.UUID { return nil }

// Registry makes an empty command of each kind that clients may submit, by
// name.
var Registry = byName(
	empty[CreateProvider], empty[RenameProvider], empty[ReparentProvider], empty[UpdateProvider], empty[DeleteProvider],
	empty[ReplaceInventories], empty[CreateInventory], empty[UpdateInventory], empty[DeleteInventory],
	empty[DeleteInventories], empty[CreateTrait], empty[DeleteTrait], empty[ReplaceProviderTraits],
	empty[ReplaceProviderAggregates], empty[CreateResourceClass], empty[RenameResourceClass], empty[DeleteResourceClass],
	empty[AllocateForConsumers], empty[ReleaseConsumer], empty[Reserve], empty[ConfirmReservation],
	empty[CancelReservation], empty[Reshape], empty[CreateNode], empty[UpdateNode], empty[DeleteNode],
	empty[ReplaceNodeTraits], empty[AddNodeTrait], empty[RemoveNodeTrait], empty[SetNodeProvisionState],
	empty[SetNodePowerState], empty[SetNodeMaintenance], empty[RequestNodeAllocation], empty[BackfillNodeAllocation],
	empty[UpdateNodeAllocation], empty[ReleaseNodeAllocation], empty[CreateChassis], empty[UpdateChassis],
	empty[DeleteChassis], empty[Claim], empty[SetLimit], empty[PlaceProject],
)

// Internal is Registry for the commands that only the server itself submits:
// its processes, and its start.
var Internal = byName(
	empty[AddStandardNames], empty[BeginTerm], empty[ChooseNode], empty[ExpireReservation], empty[SetNodeProviders],
)

func empty[T any, C interface {
	*T
	Command
}]() Command {
	return C(new(T))
}

func byName(list ...func() Command) map[string]func() Command {
	table := make(map[string]func() Command, len(list))
	for _, one := range list {
		table[one().CommandName()] = one
	}
	return table
}

// holder is implemented by commands that change what consumers hold, and
// nothing else.
type holder interface{ onlyHoldings() }

// OnlyHoldings reports whether a command, by name, changes what consumers hold
// and nothing else, but for what follows from that: generations, and how much of
// a node's provider is reserved. A busy provider's history is full of them.
func OnlyHoldings(name string) bool {
	for _, table := range []map[string]func() Command{Registry, Internal} {
		if one, known := table[name]; known {
			_, only := one().(holder)
			return only
		}
	}
	return false
}
