package writer

import (
	"fmt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// lookingBack is how many calls may be looked up at a time before they wait. Each has
// a place at its door, too.
const lookingBack = 2048

// lookBack answers a call whose command id is so old that its record may have left the
// read models, if it was accepted before. Otherwise the call waits to be decided. An
// archive may take its time, for which neither the caller of Start nor the loop waits.
func (w *Writer) lookBack(c *call) {
	if err := w.models.Ready(); err != nil {
		w.turnAway(c.Submission, c.done, commands.Outcome{}, fmt.Errorf("%w: %w", commands.ErrUnreadable, err))
		return
	}
	select {
	case w.looking <- struct{}{}:
	default:
		w.turnAway(c.Submission, c.done, commands.Outcome{}, commands.ErrBusy)
		return
	}
	go func() {
		defer func() { <-w.looking }()
		result, found, err := w.models.Command(c.ID)
		switch {
		case err != nil:
			w.turnAway(c.Submission, c.done, commands.Outcome{}, fmt.Errorf("%w: %w", commands.ErrUnreadable, err))
		case found:
			w.turnAway(c.Submission, c.done, repeatedOutcome(c, result), nil)
		default:
			w.take(c)
		}
	}()
}

// errLeft answers a call of whose age records have left the read models while it waited.
var errLeft = fmt.Errorf("%w: records as old as this command have left them just now; send it again", commands.ErrUnreadable)

// known answers a call whose command id was accepted before. If the first call
// with the id is still pending, this call follows it. Otherwise known reserves
// the id for the call.
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
	result, found, err := w.models.HotCommand(c.ID)
	if err != nil {
		return false, err
	}
	if !found {
		// What has left until now is known after it was not found.
		if w.models.CommandsLeft(c.ID) != c.left {
			w.giveUp([]*call{c}, errLeft)
			return true, nil
		}
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

// repeatedOutcome answers a call whose command id was used before. The first
// command has no address if it was rejected, or had nothing to change, while this
// call waited for it.
func repeatedOutcome(c *call, first ledger.CommandResult) commands.Outcome {
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
func (w *Writer) forget(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[c.ID] == c {
		delete(w.pending, c.ID)
	}
}
