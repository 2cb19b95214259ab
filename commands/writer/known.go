package writer

import (
	"fmt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// known answers a call whose command id was accepted before. If the first call
// with the id is still pending, this call follows it. Otherwise known reserves
// the id for the call.
func (w *Writer) known(c *pendingCommand) (bool, error) {
	w.mu.Lock()
	earlier, ok := w.pending[c.ID]
	if ok && earlier != c {
		earlier.followers = append(earlier.followers, c)
	}
	if earlier == nil {
		w.pending[c.ID] = c
	}
	w.mu.Unlock()
	if ok && earlier != c {
		return true, nil
	}
	result, found, err := w.models.Command(c.ID)
	if err != nil || !found {
		return false, err
	}
	c.outcome = repeatedOutcome(c, result)
	w.answer(c)
	return true, nil
}

// repeatedOutcome answers a call whose command id was used before. The first
// command has no address if it was rejected, or had nothing to change, while this
// call waited for it.
func repeatedOutcome(c *pendingCommand, first ledger.CommandResult) commands.Outcome {
	if first.Fingerprint == c.fingerprint {
		return commands.Outcome{Address: first.Address, Repeated: true}
	}
	message := fmt.Sprintf("command id %s belongs to another command, at %s", c.ID, first.Address)
	if first.Address.Sequence == 0 {
		message = fmt.Sprintf("command id %s was given to another command at the same time", c.ID)
	}
	return commands.Outcome{Rejection: &commands.Rejection{Code: commands.CodeCommandIDReused, Message: message}}
}

// forget releases a command id that known reserved.
func (w *Writer) forget(c *pendingCommand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[c.ID] == c {
		delete(w.pending, c.ID)
	}
}
