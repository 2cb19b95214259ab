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
}

// noConsumers is embedded by commands that name no consumer.
type noConsumers struct{}

// Consumers implements Command.
func (noConsumers) Consumers() []ledger.UUID { return nil }

// Submission is a command with everything about it that is not the command:
// who sends it, and the id that makes a retry safe.
type Submission struct {
	// ID names this submission. The same id submitted again, at any later
	// time, answers with the first result and appends nothing.
	ID        ledger.UUID
	Actor     string // the authenticated user
	RequestID string // the door's name for the request, for tracing
	Cause     *ledger.Address
	// DryRun decides the command against the present and says what would
	// happen; nothing is appended. No ID is needed, and none is remembered.
	DryRun bool
	// Project binds the client to a project: commands about what is not the
	// project's are rejected. Empty: it is not bound.
	Project string
	Command Command
}

// Outcome is the answer to a submission.
type Outcome struct {
	// Address is that of the command's record. Its sequence is the new
	// generation of every consumer the command changed. It is zero for a
	// command that was accepted but had nothing to do.
	Address ledger.Address
	// Rejection says why the command was not accepted; nil if it was.
	Rejection *Rejection
	// Repeated: the command id was known, and this is the first result.
	Repeated bool
	// Events are what a dry run would record; empty if it had nothing to do.
	Events []ledger.Event

	fork *ledger.State // for Processor.Fork
}

// Registry makes an empty command of each kind, by name. It is the whole
// vocabulary of commands.
var Registry = map[string]func() Command{
	"CreateProvider":            func() Command { return new(CreateProvider) },
	"RenameProvider":            func() Command { return new(RenameProvider) },
	"ReparentProvider":          func() Command { return new(ReparentProvider) },
	"UpdateProvider":            func() Command { return new(UpdateProvider) },
	"DeleteProvider":            func() Command { return new(DeleteProvider) },
	"ReplaceInventories":        func() Command { return new(ReplaceInventories) },
	"CreateInventory":           func() Command { return new(CreateInventory) },
	"UpdateInventory":           func() Command { return new(UpdateInventory) },
	"DeleteInventory":           func() Command { return new(DeleteInventory) },
	"DeleteInventories":         func() Command { return new(DeleteInventories) },
	"CreateTrait":               func() Command { return new(CreateTrait) },
	"DeleteTrait":               func() Command { return new(DeleteTrait) },
	"ReplaceProviderTraits":     func() Command { return new(ReplaceProviderTraits) },
	"ReplaceProviderAggregates": func() Command { return new(ReplaceProviderAggregates) },
	"CreateResourceClass":       func() Command { return new(CreateResourceClass) },
	"RenameResourceClass":       func() Command { return new(RenameResourceClass) },
	"DeleteResourceClass":       func() Command { return new(DeleteResourceClass) },
	"AllocateForConsumers":      func() Command { return new(AllocateForConsumers) },
	"ReleaseConsumer":           func() Command { return new(ReleaseConsumer) },
	"Reserve":                   func() Command { return new(Reserve) },
	"ConfirmReservation":        func() Command { return new(ConfirmReservation) },
	"CancelReservation":         func() Command { return new(CancelReservation) },
	"Reshape":                   func() Command { return new(Reshape) },
	"CreateNode":                func() Command { return new(CreateNode) },
	"UpdateNode":                func() Command { return new(UpdateNode) },
	"DeleteNode":                func() Command { return new(DeleteNode) },
	"ReplaceNodeTraits":         func() Command { return new(ReplaceNodeTraits) },
	"AddNodeTrait":              func() Command { return new(AddNodeTrait) },
	"RemoveNodeTrait":           func() Command { return new(RemoveNodeTrait) },
	"SetNodeProvisionState":     func() Command { return new(SetNodeProvisionState) },
	"SetNodePowerState":         func() Command { return new(SetNodePowerState) },
	"SetNodeMaintenance":        func() Command { return new(SetNodeMaintenance) },
	"RequestNodeAllocation":     func() Command { return new(RequestNodeAllocation) },
	"BackfillNodeAllocation":    func() Command { return new(BackfillNodeAllocation) },
	"UpdateNodeAllocation":      func() Command { return new(UpdateNodeAllocation) },
	"ReleaseNodeAllocation":     func() Command { return new(ReleaseNodeAllocation) },
	"CreateChassis":             func() Command { return new(CreateChassis) },
	"UpdateChassis":             func() Command { return new(UpdateChassis) },
	"DeleteChassis":             func() Command { return new(DeleteChassis) },
}
