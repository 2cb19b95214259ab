package placement

import "github.com/allot-project/allot/projector/candidates"

// world returns the indexed providers of the request's moment. For the present it
// moves the request's view to the moment of the index.
func (h *Handler) world(r *request) (*candidates.World, error) {
	if r.at != "" {
		return r.view.World(r.Context())
	}
	world, view := h.Views.World()
	r.view = view
	return world, nil
}
