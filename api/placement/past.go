package placement

import (
	"errors"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

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
