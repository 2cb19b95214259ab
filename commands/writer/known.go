package writer

import (
	"fmt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// known answers a call whose command id was accepted before. If the first call
// with the id is still pending, this call follows it. Otherwise known reserves
// the id for the call.
func (l *loop) known(c *pendingCommand, f *inflightCommit) (bool, error) {
	l.mu.Lock()
	earlier, ok := l.pending[c.ID]
	follows := ok && earlier != c
	hidden := follows && !c.mayKnow(earlier.Actor)
	if follows && !hidden {
		earlier.followers = append(earlier.followers, c)
	}
	if earlier == nil {
		l.pending[c.ID] = c
	}
	l.mu.Unlock()
	if hidden {
		l.hide(c, f)
	}
	if follows {
		return true, nil
	}
	result, found, err := l.models.Command(c.ID)
	if err != nil || !found {
		return false, err
	}
	if c.Project != "" {
		record, _, err := l.models.Record(result.Address)
		if err != nil {
			return false, err
		}
		if record == nil || !c.mayKnow(record.Actor) {
			l.forget(c) // calls of others with the id must not follow this one
			l.hide(c, f)
			return true, nil
		}
	}
	c.outcome = repeatedOutcome(c, result)
	l.answer(c)
	return true, nil
}

// mayKnow reports whether a call's client may be told of a command of an actor. One that
// is bound to a project is told of its own commands alone: it may have guessed an id.
func (c *pendingCommand) mayKnow(actor string) bool { return c.Project == "" || c.Actor == actor }

// hide answers a call with the command id of another client. As for any other id, what
// may not be touched comes first, and then no more is told than that the id is taken.
func (l *loop) hide(c *pendingCommand, f *inflightCommit) {
	rejection := commands.Foreign(c.Submission, l.state)
	if rejection == nil {
		rejection = &demand.Rejection{
			Code:    demand.CodeCommandIDReused,
			Message: fmt.Sprintf("command id %s is taken: send the command with another id", c.ID),
		}
	}
	l.reject(c, f, rejection)
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
	return commands.Outcome{Rejection: &demand.Rejection{Code: demand.CodeCommandIDReused, Message: message}}
}

// forget releases a command id that known reserved.
func (l *loop) forget(c *pendingCommand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[c.ID] == c {
		delete(l.pending, c.ID)
	}
}
