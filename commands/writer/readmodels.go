package writer

import "github.com/allot-project/allot/ledger"

// ReadModels are the read models, as far as the Writer needs them.
type ReadModels interface {
	// Ready returns nil if the other methods, but for Command, answer at once.
	// Otherwise they block until they can answer, and the writer refuses new commands
	// meanwhile.
	Ready() error
	// Fold makes a durable commit readable. Commits come in order.
	Fold(*ledger.Commit, ledger.Changes) error
	// Command finds the record of a command id among the folded commits. It may wait
	// for an archive, and fail with a ledger.ErrArchived, unless CommandsLeft is 0.
	Command(id ledger.UUID) (ledger.CommandResult, bool, error)
	// HotCommand is Command without archives: it finds no record that has left the
	// read models.
	HotCommand(id ledger.UUID) (ledger.CommandResult, bool, error)
	// CommandsLeft returns up to which sequence records have left the read models with
	// which a command id may be; 0: none has.
	CommandsLeft(id ledger.UUID) uint64
	// Checkpoint returns the head of the last folded commit.
	Checkpoint() ledger.Head
	// HighWater returns the head of the newest commit that was ever folded, even
	// if the read models themselves were lost since.
	HighWater() ledger.Head
}
