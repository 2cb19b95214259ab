package writer

import "github.com/allot-project/allot/ledger"

// ReadModels is what the Writer needs of the read models.
type ReadModels interface {
	// Ready is nil if the others answer at once. Otherwise they wait until
	// they can, and new commands are refused meanwhile.
	Ready() error
	// Fold makes a durable commit readable. Commits come in order.
	Fold(*ledger.Commit, ledger.Changes) error
	// Command finds the record of a command id among the folded commits.
	Command(id ledger.UUID) (ledger.CommandResult, bool, error)
	// Checkpoint is the position of the last folded commit.
	Checkpoint() ledger.Head
	// HighWater is the position of the newest commit that was ever folded, also
	// when the read models themselves were lost since.
	HighWater() ledger.Head
}
