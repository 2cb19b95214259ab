package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
)

const (
	// appendTries is how often a call is decided again after failed appends
	// before its caller is told that the log cannot be written.
	appendTries = 10
	// retryPause, times the number of tries so far, is the pause between two
	// tries.
	retryPause = 20 * time.Millisecond
)

func (w *Writer) signalAppendFailed() {
	select {
	case w.appendFailed <- struct{}{}:
	default:
	}
}

// recoverFrom takes back everything that is not known to be durable, reads
// the log to its end and puts the calls back to be decided again.
func (l *loop) recoverFrom(failed []*inflightCommit) error {
	for i := len(failed) - 1; i >= 0; i-- {
		if failed[i].commit != nil {
			l.uncertainFrom = max(l.uncertainFrom, failed[i].commit.Sequence)
			l.state.Undo(failed[i].undo, failed[i].changes)
		}
		if failed[i].fork != nil {
			l.opts.Snapshots.Forget()
		}
	}
	l.floor = l.latest + 1
	var calls []*pendingCommand
	for _, f := range failed {
		calls = append(calls, f.calls...)
	}
	if err := l.catchUp(); err != nil {
		reason := commands.ErrStopped
		if errors.Is(err, commands.ErrNotLeading) {
			reason = err
		}
		l.giveUp(append(calls, l.retry...), reason)
		l.retry = nil
		return err
	}
	var again []*pendingCommand
	tries := 0
	for _, c := range calls {
		l.forget(c)
		c.tries++
		tries = max(tries, c.tries)
		if c.tries >= appendTries {
			l.giveUp([]*pendingCommand{c}, commands.ErrLogUnavailable)
			continue
		}
		again = append(again, c)
	}
	l.retry = append(again, l.retry...)
	if tries > 1 {
		time.Sleep(time.Duration(tries) * retryPause) // give the log a moment
	}
	return nil
}

// lookAgainEvery is the pause between two looks at the log's end while no call waits.
const lookAgainEvery = 250 * time.Millisecond

// lookAgain says when to look at the log's end again although no call waits; nil: never.
// What was sent may come into the log long after its callers were told that it cannot be
// written, once its servers can agree again. Followers then show it, so they may answer
// nothing else before this writer knows it, too.
func (l *loop) lookAgain() <-chan time.Time {
	if l.uncertainFrom < l.state.Next() {
		return nil // another commit has the place
	}
	return time.After(lookAgainEvery)
}

// depose ends the work of a writer that no longer leads. Commits that were sent
// may have become durable, so it waits for them; it decides nothing else.
func (l *loop) depose() error {
	failed := l.sync()
	if len(failed) == 0 {
		return commands.ErrNotLeading
	}
	return l.recoverFrom(failed)
}

// catchUp folds the commits that the log holds beyond the State. While the log is
// out of reach it tries again; a broken log is an error.
func (l *loop) catchUp() error {
	wait, began, warned := firstCatchUp, time.Now(), time.Time{}
	l.owes(&began)
	for {
		refused := l.refusal()
		err := refused
		if err == nil {
			err = l.readTail()
		}
		if err == nil || isLogBroken(err) || errors.Is(err, commands.ErrNotLeading) {
			return err
		}
		if refused != nil || l.opts.AnswerWithin > 0 && time.Since(began) >= outage {
			l.tellWaiting(fmt.Errorf("%w: %w", commands.ErrLogUnavailable, err), everyone)
		}
		if time.Since(warned) >= warnEvery {
			l.opts.Logger.Warn("the log cannot be read; trying again", "error", err)
			warned = time.Now()
		}
		select {
		case <-time.After(wait):
		case <-l.lost:
			return commands.ErrNotLeading
		case <-l.quit:
			return fmt.Errorf("%w while the log could not be read: %w", commands.ErrStopped, err)
		}
		wait = min(2*wait, lastCatchUp)
	}
}

// catchUp waits between tries, longer each time, and logs that now and then.
const (
	firstCatchUp = 10 * time.Millisecond
	lastCatchUp  = 250 * time.Millisecond
	warnEvery    = 5 * time.Second
)

// isLogBroken reports whether an error means a broken log rather than a log that
// is out of reach.
func isLogBroken(err error) bool {
	for _, broken := range []error{
		ledger.ErrChain, ledger.ErrCorrupt, ledger.ErrInvariant, ledger.ErrLogBehind, ledger.ErrLogGap, errReadModels,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// errReadModels means that the read models could not be written.
var errReadModels = errors.New("commands: the read models cannot be written")

const (
	readTailTimeout = 30 * time.Second
	// closingRead is the time for which the log may still be read after Close.
	closingRead = 2 * time.Second
)

func (l *loop) readTail() error {
	ctx, cancel := context.WithTimeout(context.Background(), readTailTimeout)
	defer cancel()
	go func() {
		select {
		case <-l.quit:
			time.AfterFunc(closingRead, cancel)
		case <-ctx.Done():
		}
	}()
	last, err := l.log.Last(ctx)
	if err != nil {
		return err
	}
	if last < l.state.Head().Sequence {
		return fmt.Errorf("%w: it ends at %d, but %d was durable", ledger.ErrLogBehind, last, l.state.Head().Sequence)
	}
	known := l.state.Head()
	err = chain.Read(ctx, l.log, known, last, func(c *ledger.Commit) error {
		changes, err := l.state.Fold(c)
		if err != nil {
			return err
		}
		// The commit may have been folded before an answer to it failed.
		if c.Sequence > l.models.Checkpoint().Sequence {
			if err := l.models.Fold(c, changes); err != nil {
				return fmt.Errorf("%w: %w", errReadModels, err)
			}
		}
		return l.stillLeads() // another leader may not know yet what comes after its term
	})
	if err != nil {
		return err
	}
	if l.state.Head() != known {
		l.took()
	}
	l.passOver(last)
	return l.stillLeads()
}

// stillLeads returns an error if the records just read began a term of another
// instance. A term that was known before does not count, because this writer's
// own term may not have begun yet.
func (l *loop) stillLeads() error {
	if l.opts.Leadership == nil {
		return nil
	}
	now := l.state.Term()
	if now != l.term && now.Instance != l.opts.Leadership.Instance() {
		return fmt.Errorf("%w: term %d is %s's", commands.ErrNotLeading, now.Number, now.Leader)
	}
	l.term = now
	select {
	case <-l.lost:
		return commands.ErrNotLeading
	default:
		return nil
	}
}

// TellSkipped tells operators that the entries at the log's end, after a commit and up
// to last, are skipped.
func TellSkipped(logger *slog.Logger, after, last uint64) {
	logger.Error(
		"the log holds entries at its end that are no commits of this ledger, and they are skipped: another program has "+
			"written into it, or it has taken an append again that came late. Find out who can publish on the log's subject",
		"after", after, "last", last,
	)
}

// passOver skips entries at the end of the log that this ledger did not write.
func (l *loop) passOver(last uint64) {
	if l.state.Next() > last {
		return
	}
	TellSkipped(l.opts.Logger, l.state.Head().Sequence, last)
	l.state.PassOver(last)
}

// sync waits until the finisher has dealt with every flight. It returns the
// flights whose append failed, and those behind them.
func (l *loop) sync() []*inflightCommit {
	barrier := make(chan []*inflightCommit, 1)
	l.flights <- &inflightCommit{barrier: barrier}
	failed := <-barrier
	select {
	case <-l.appendFailed: // of flights that are among these
	default:
	}
	return failed
}
