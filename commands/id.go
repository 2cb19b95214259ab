package commands

import (
	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger"
)

// NewID makes an id for a command. Any uuid would do. This one is of version 7
// and begins with the time, so ids made in a row lie side by side in the read
// models; random ids cost the writer a tenth of its time.
func NewID() ledger.UUID { return ledger.UUID(uuid.Must(uuid.NewV7())) }
