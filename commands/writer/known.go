package writer

import (
	"fmt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// known answers a call whose command id was accepted before, and lets it wait
// for the first one if that is still on its way. Otherwise the id is taken.
func (w *Writer) known(c *call) (bool, error) {
	w.mu.Lock()
	earlier, ok := w.pending[c.ID]
	if ok && earlier != c {
		earlier.followers = append(earlier.followers, c)
	}
	w.pending[c.ID] = orFirst(earlier, c)
	w.mu.Unlock()
	if ok && earlier != c {
		return true, nil
	}
	result, found, err := w.models.Command(c.ID)
	if err != nil {
		return false, err
	}
	if !found {
		return false, nil
	}
	c.outcome = repeatedOutcome(c, result)
	w.answer(c)
	return true, nil
}

func orFirst(earlier, c *call) *call {
	if earlier != nil {
		return earlier
	}
	return c
}

// repeatedOutcome answers a call whose command id has been used. The first
// command has no address if it was rejected, or had nothing to do, while this
// call waited for it.
func repeatedOutcome(c *call, first ledger.CommandResult) commands.Outcome {
	if first.Fingerprint == c.fingerprint {
		return commands.Outcome{Address: first.Address, Repeated: true}
	}
	message := fmt.Sprintf("command id %s stands for another command, at %s", c.ID, first.Address)
	if first.Address.Sequence == 0 {
		message = fmt.Sprintf("command id %s was given to another command at the same time", c.ID)
	}
	return commands.Outcome{Rejection: &commands.Rejection{Code: commands.CodeCommandIDReused, Message: message}}
}

// forget gives a command id back that known took.
func (w *Writer) forget(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[c.ID] == c {
		delete(w.pending, c.ID)
	}
}
