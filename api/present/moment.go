package present

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// ErrMoment is in every error about a faulty moment.
var ErrMoment = errors.New("no such moment")

// ViewAt finds the view of a moment: a commit's sequence, an RFC 3339 time that
// is not in the future, or, if at is empty, the newest.
func ViewAt(views *projector.Projector, at string, now time.Time) (projector.View, error) {
	if at == "" {
		return views.View(), nil
	}
	sequence, moment, err := readMoment(at)
	if err != nil {
		return projector.View{}, err
	}
	var view projector.View
	if moment.IsZero() {
		view, err = views.ViewAt(sequence)
	} else {
		view, err = views.ViewAtTime(moment, now)
	}
	return view, noMoment(at, err)
}

// readMoment reads a commit's sequence, or a time, which is else zero.
func readMoment(at string) (sequence uint64, moment time.Time, err error) {
	if sequence, err = strconv.ParseUint(at, 10, 64); err == nil {
		return sequence, moment, nil
	}
	if moment, err = ledger.ParseTime(at); err != nil {
		err = fmt.Errorf("%w: %q is neither a sequence nor an RFC 3339 time of the years 1678 to 2261", ErrMoment, at)
	}
	return 0, moment, err
}

func noMoment(at string, err error) error {
	if errors.Is(err, projector.ErrNotYet) || errors.Is(err, projector.ErrBeforeFirst) {
		return fmt.Errorf("%w: %s: %s", ErrMoment, at, strings.TrimPrefix(err.Error(), "projector: "))
	}
	return err
}

// MomentAt is ViewAt for a point in time: that of a sequence is when its commit was decided, and
// there is one before the first commit. Now is no earlier than the newest commit, whose server's
// clock may be ahead of this one's.
func MomentAt(views *projector.Projector, at string, now time.Time) (projector.Moment, error) {
	if at == "" {
		moment, err := views.View().Moment()
		moment.Time = max(moment.Time, now.UnixNano())
		return moment, err
	}
	sequence, moment, err := readMoment(at)
	if err != nil {
		return projector.Moment{}, err
	}
	if !moment.IsZero() {
		then, err := views.MomentAt(moment, now)
		return then, noMoment(at, err)
	}
	view, err := views.ViewAt(sequence)
	if err != nil {
		return projector.Moment{}, noMoment(at, err)
	}
	return view.Moment()
}

// errAhead means that a read here could show more than a later one at the leader.
var errAhead = errors.New("this server has read more in the log than a leader has confirmed to it yet")

// confirmed is the pause between two looks whether a leader has confirmed what was read.
const confirmed = 20 * time.Millisecond

// Reached returns nil if a commit can be read here, and else why it cannot. Fresh is nil
// for a single server.
func Reached(views *projector.Projector, fresh commands.Freshness, least uint64) error {
	if last := views.View().Sequence(); last < least {
		return fmt.Errorf("this server has not folded %d yet, only %d", least, last)
	}
	if fresh != nil && fresh.Ahead() {
		return errAhead
	}
	return nil
}

// AwaitReached waits until a commit can be read here. When the context ends it returns why
// it cannot.
func AwaitReached(ctx context.Context, views *projector.Projector, fresh commands.Freshness, least uint64) error {
	for {
		changed := views.Changed()
		err := Reached(views, fresh, least)
		if err == nil {
			return nil
		}
		var again <-chan time.Time
		if errors.Is(err, errAhead) {
			again = time.After(confirmed)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return err
		}
	}
}
