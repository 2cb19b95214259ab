package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// ContinueLog has the log of several servers go on in another stream, which exists
// and is empty. The leader's trimmer submits it. The stream begins at a sequence that
// was chosen when it was made, so the command counts in the commit before that
// sequence, alone, or not at all.
type ContinueLog struct {
	noConsumers   `json:"-"`
	operatorsOnly `json:"-"`

	After  uint64 `json:"after"`  // sequence of the commit that ends the present stream
	Of     string `json:"of"`     // id of the present stream
	Stream string `json:"stream"` // name of the next one
}

// CommandName implements Command.
func (*ContinueLog) CommandName() string { return "ContinueLog" }

// Check implements Command.
func (c *ContinueLog) Check() *Rejection {
	if c.Stream == "" {
		return invalid("stream", "is required")
	}
	return nil
}

// Decide implements Command.
func (c *ContinueLog) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	if s.Next() != c.After {
		return nil, &Rejection{
			Code: CodeInvalid, Facts: Facts{Field: "after"},
			Message: fmt.Sprintf("the next stream of the log begins after commit %d, and this would be commit %d", c.After, s.Next()),
		}
	}
	return []ledger.Event{ledger.LogContinued{Of: c.Of, Stream: c.Stream}}, nil
}

// Alone reports whether the record of a command has to be the only one of its commit.
func Alone(c Command) bool {
	_, alone := c.(*ContinueLog)
	return alone
}
