package writer

import (
	"errors"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// loop decides. Its fields are its own (invariant 1).
type loop struct {
	*Writer
	state         *ledger.State
	builder       *ledger.CommitBuilder
	retry         []*pendingCommand // to be decided before the calls in the queue
	latest        int64             // the time of the last decision
	floor         int64             // no decision is made before that
	underWay      int               // commits that are being appended
	full          bool              // the last commit ended because it was full
	lastCalls     [2]int            // number of calls in the last two commits
	patience      *time.Timer       // how much longer the open commit waits for calls
	impatient     bool              // runs for patience
	term          ledger.Term       // the State's term when the log was last read
	uncertainFrom uint64            // the newest sequence at which an append failed that may be in the log yet
}

// run is the loop. It ends when Close was called and no work is left, or when
// going on could break an invariant.
func (l *loop) run() {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		l.finish()
	}()
	err := l.decideAll()
	close(l.flights)
	<-finished
	if err == nil || errors.Is(err, commands.ErrNotLeading) || errors.Is(err, commands.ErrStopped) {
		// Everything that is not known to be durable has been taken back.
		l.finalState = l.state
	}
	l.stop(err)
	close(l.done)
}

func (l *loop) decideAll() error {
	for {
		select {
		case <-l.appendFailed:
			if err := l.recoverFrom(l.sync()); err != nil {
				return err
			}
			continue
		case <-l.lost:
			return l.depose()
		default:
		}
		next, more := l.nextWaiting()
		if !more {
			return l.drain()
		}
		if next != nil {
			l.retry = append(l.retry, next)
		}
		if len(l.retry) == 0 {
			continue // woken by a failed append
		}
		if !l.takeTurn() {
			continue
		}
		f, err := l.buildCommit()
		if err == nil {
			err = l.send(f)
		}
		if err != nil {
			l.retry = append(f.calls, l.retry...) // stop answers its calls
			return err
		}
	}
}

// drain waits for the commits under way after the last call. If one fails there
// is work again.
func (l *loop) drain() error {
	failed := l.sync()
	if len(failed) == 0 {
		return nil
	}
	if err := l.recoverFrom(failed); err != nil {
		return err
	}
	return l.decideAll()
}

// takeTurn waits until another commit may be under way. It returns false if an
// append has failed meanwhile.
//
// Where other servers could write, no commit is sent before the one before it is
// durable. An append names a sequence and not the commit before it: one that is late
// would still be taken if another server's commit stood in that place by then, and
// its link to a commit that never came would break the log's chain for ever. A
// server that writes alone sends its appends in order, so an earlier one that fails
// takes the later ones with it.
func (l *loop) takeTurn() bool {
	others := 0
	if l.full && l.opts.Leadership == nil {
		others = maxAhead - 1
	}
	for l.underWay > others {
		select {
		case <-l.acked:
			l.underWay--
		case <-l.appendFailed:
			l.signalAppendFailed()
			return false
		}
	}
	select {
	case <-l.appendFailed: // what has ended was not appended
		l.signalAppendFailed()
		return false
	default:
		return true
	}
}

// nextWaiting waits for a call, unless some calls must be decided again. It
// returns false when Close was called and the queue is empty.
func (l *loop) nextWaiting() (*pendingCommand, bool) {
	if len(l.retry) > 0 {
		return nil, true
	}
	select {
	case c := <-l.queue:
		return c, true
	default:
	}
	select {
	case c := <-l.queue:
		return c, true
	case <-l.appendFailed:
		l.signalAppendFailed()
		return nil, true
	case <-l.lookAgain():
		l.signalAppendFailed()
		return nil, true
	case <-l.lost:
		return nil, true
	case <-l.quit:
		select {
		case c := <-l.queue:
			return c, true
		default:
			return nil, false
		}
	}
}

// stop answers all calls that are still waiting.
func (l *loop) stop(err error) {
	l.mu.Lock()
	l.closed = true
	l.failure = err
	l.mu.Unlock()
	reason := commands.ErrStopped
	if errors.Is(err, commands.ErrNotLeading) {
		reason = commands.ErrNotLeading
	} else if err != nil {
		l.opts.Logger.Error("the writer has stopped", "error", err)
	}
	l.giveUp(l.retry, reason)
	l.mu.Lock()
	var left []*pendingCommand
	for _, c := range l.pending {
		left = append(left, c)
	}
	l.mu.Unlock()
	l.giveUp(left, reason)
	for {
		select {
		case c := <-l.queue:
			l.giveUp([]*pendingCommand{c}, reason)
		default:
			return
		}
	}
}
