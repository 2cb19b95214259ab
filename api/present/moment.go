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
	var view projector.View
	var err error
	if sequence, notNumber := strconv.ParseUint(at, 10, 64); notNumber == nil {
		view, err = views.ViewAt(sequence)
	} else {
		// A blank is a time zone's plus sign that was not escaped in a query
		// string.
		moment, malformed := time.Parse(time.RFC3339Nano, strings.ReplaceAll(at, " ", "+"))
		if malformed != nil {
			return view, fmt.Errorf("%w: %q is neither a sequence nor an RFC 3339 time", ErrMoment, at)
		}
		view, err = views.ViewAtTime(moment, now)
	}
	if errors.Is(err, projector.ErrNotYet) || errors.Is(err, projector.ErrBeforeFirst) {
		return view, fmt.Errorf("%w: %s: %s", ErrMoment, at, strings.TrimPrefix(err.Error(), "projector: "))
	}
	return view, err
}
