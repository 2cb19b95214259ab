package present

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	view, _, err := lookAt(views, at, now)
	return view, err
}

// lookAt is ViewAt for a moment that is given. A time is returned, too.
func lookAt(views *projector.Projector, at string, now time.Time) (view projector.View, moment time.Time, err error) {
	if sequence, notNumber := strconv.ParseUint(at, 10, 64); notNumber == nil {
		view, err = views.ViewAt(sequence)
	} else {
		// A blank is a time zone's plus sign that was not escaped in a query
		// string.
		if moment, err = time.Parse(time.RFC3339Nano, strings.ReplaceAll(at, " ", "+")); err != nil {
			return view, moment, fmt.Errorf("%w: %q is neither a sequence nor an RFC 3339 time", ErrMoment, at)
		}
		view, err = views.ViewAtTime(moment, now)
	}
	if errors.Is(err, projector.ErrNotYet) || errors.Is(err, projector.ErrBeforeFirst) {
		err = fmt.Errorf("%w: %s: %s", ErrMoment, at, strings.TrimPrefix(err.Error(), "projector: "))
	}
	return view, moment, err
}

// MomentAt is ViewAt for a point in time: that of a sequence is when its commit was decided.
// Now is no earlier than the newest commit, whose server's clock may be ahead of this one's.
func MomentAt(views *projector.Projector, at string, now time.Time) (projector.Moment, error) {
	if at == "" {
		moment, err := views.View().Moment()
		moment.Time = max(moment.Time, now.UnixNano())
		return moment, err
	}
	view, moment, err := lookAt(views, at, now)
	if err != nil || !moment.IsZero() {
		return projector.Moment{Sequence: view.Sequence(), Time: moment.UnixNano()}, err
	}
	return view.Moment()
}
