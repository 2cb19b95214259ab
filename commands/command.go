// Package commands decides what may happen. Each command is a type with a method
// decide, which holds every rule that the command must obey. It is pure: it reads
// a State and returns events or a Rejection. Package writer carries commands out.
package commands

import (
	"reflect"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Command asks for a change. It is data: clients submit it as JSON or msgpack, and Check
// and Decide carry it out. All commands are in this package.
type Command interface {
	// check returns a rejection for faults that do not depend on the State, such
	// as a missing field or an amount out of range, or nil. It changes nothing.
	check() *demand.Rejection

	// decide returns the events that follow if the command is carried out now, or
	// a rejection. Without events the command has nothing to change.
	decide(*ledger.State) ([]ledger.Event, *demand.Rejection)

	// consumers lists the consumers that the command names. A command waits
	// behind others that name the same consumer, which saves the writer decisions
	// in vain. It serves no other purpose: which consumers a command changes
	// follows from its events.
	consumers() []ledger.UUID

	// forProject returns a rejection if the command touches something outside the
	// project that its client is bound to, or nil. The rejection tells no more
	// about things of others than that they may not be touched.
	forProject(s *ledger.State, project string) *demand.Rejection
}

// Check finds faults of a command that do not depend on the State.
func Check(c Command) *demand.Rejection { return c.check() }

// Consumers lists the consumers that a command names.
func Consumers(c Command) []ledger.UUID { return c.consumers() }

// NameOf returns a command's name in records, on NATS and in the docs: its type's.
func NameOf(c Command) string { return reflect.TypeOf(c).Elem().Name() }

// noConsumers is embedded by commands that name no consumers.
type noConsumers struct{}

func (noConsumers) consumers() []ledger.UUID { return nil }

// Registry makes an empty command of each kind that clients may submit, by name.
var Registry = byName(
	empty[CreateProvider], empty[RenameProvider], empty[ReparentProvider], empty[UpdateProvider], empty[DeleteProvider],
	empty[ReplaceInventories], empty[CreateInventory], empty[UpdateInventory], empty[DeleteInventory],
	empty[DeleteInventories], empty[CreateTrait], empty[DeleteTrait], empty[ReplaceProviderTraits],
	empty[ReplaceProviderAggregates], empty[ReplaceProviderCounters],
	empty[CreateResourceClass], empty[RenameResourceClass], empty[DeleteResourceClass],
	empty[AllocateForConsumers], empty[ReleaseConsumer], empty[Reserve], empty[ConfirmReservation],
	empty[CancelReservation], empty[Reshape], empty[CreateNode], empty[UpdateNode], empty[DeleteNode],
	empty[ReplaceNodeTraits], empty[AddNodeTrait], empty[RemoveNodeTrait], empty[SetNodeProvisionState],
	empty[SetNodePowerState], empty[SetNodeMaintenance], empty[RequestNodeAllocation], empty[BackfillNodeAllocation],
	empty[UpdateNodeAllocation], empty[ReleaseNodeAllocation], empty[CreateChassis], empty[UpdateChassis],
	empty[DeleteChassis], empty[Claim], empty[SetLimit], empty[PlaceProject], empty[SetPreference],
	empty[SetTopology],
)

// Internal is Registry for the commands that only the server itself submits:
// its processes, and its start.
var Internal = byName(
	empty[AddStandardNames], empty[BeginTerm], empty[ChooseNode], empty[ExpireReservation],
	empty[SetNodeProviders], empty[SetConsumptionRoot],
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
		table[NameOf(one())] = one
	}
	return table
}

// holder is implemented by commands that change nothing but what consumers hold.
type holder interface{ onlyHoldings() }

// OnlyHoldings reports whether the named command changes only what consumers
// hold, and what follows from that: generations, and the reserved amounts of
// nodes' providers. The history of a busy provider is full of such commands.
func OnlyHoldings(name string) bool {
	for _, table := range []map[string]func() Command{Registry, Internal} {
		if one, known := table[name]; known {
			_, only := one().(holder)
			return only
		}
	}
	return false
}
