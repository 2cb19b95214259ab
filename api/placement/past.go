package placement

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

// AtHeader and the query parameter "at" let any GET be answered as it was at
// a moment in the past: after the commit with a sequence, or at an RFC 3339
// time. Everything else about request and answer is as without them.
const AtHeader = "Allot-At"

// SequenceHeader says, in the answer to a GET, after which commit it is so.
const SequenceHeader = "Allot-Sequence"

// takeAt takes the moment out of a request, so that Placement's own checks of
// the query string do not see it. The parameter wins over the header.
func takeAt(r *http.Request) (string, *apiError) {
	at := r.Header.Get(AtHeader)
	if value, found, failure := takeParameter(r, "at"); failure != nil || found {
		at = value
	}
	if at != "" && r.Method != http.MethodGet {
		return "", badRequest("only a GET can be about the past: %s is not possible at %s", r.Method, at)
	}
	return at, nil
}

// takeParameter takes one of Allot's own parameters out of the query string.
func takeParameter(r *http.Request, key string) (value string, found bool, failure *apiError) {
	if !strings.Contains(r.URL.RawQuery, key+"=") {
		return "", false, nil
	}
	var rest []string
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if name, text, _ := strings.Cut(part, "="); name != key {
			rest = append(rest, part)
		} else if found {
			return "", false, badRequest("Invalid query string parameters: '%s' may be given once", key)
		} else {
			var err error
			if value, err = url.QueryUnescape(text); err != nil {
				return "", false, badRequest("Invalid query string parameters: %v", err)
			}
			found = true
		}
	}
	r.URL.RawQuery = strings.Join(rest, "&")
	return value, found, nil
}

// viewAt finds the view of a moment: the newest if none is given.
func (h *Handler) viewAt(at string) (projector.View, error) {
	view, err := answers.ViewAt(h.Views, at, h.now())
	if errors.Is(err, answers.ErrMoment) {
		return view, badRequest("%v", err)
	}
	return view, err
}

func (h *Handler) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

// world returns the indexed providers of the request's moment. For the
// present it moves the request's view to the moment of the index.
func (h *Handler) world(r *request) (*candidates.World, error) {
	if r.past {
		return r.view.World()
	}
	world, view := h.Views.World()
	r.view = view
	return world, nil
}
