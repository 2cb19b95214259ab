package writer

import "github.com/allot-project/allot/ledger"

// ReadModels are the read models, as far as the Writer needs them.
type ReadModels interface {
	// Ready returns nil if the other methods answer at once.
	// Otherwise they block until they can answer, and the writer refuses new commands
	// meanwhile.
	Ready() error
	// Fold makes a durable commit readable. Commits come in order.
	Fold(*ledger.Commit, ledger.Changes) error
	// Command finds the record of a command id among the folded commits.
	Command(id ledger.UUID) (ledger.CommandResult, bool, error)
	// Record returns a record of a folded commit; nil if there is none.
	Record(ledger.Address) (*ledger.Record, bool, error)
	// Checkpoint returns the head of the last folded commit.
	Checkpoint() ledger.Head
	// HighWater returns the head of the newest commit that was ever folded, even
	// if the read models themselves were lost since.
	HighWater() ledger.Head
}
