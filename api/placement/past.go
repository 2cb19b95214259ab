package placement

import "github.com/allot-project/allot/projector/candidates"

// world returns the indexed providers of the request's moment. For the present it
// moves the request's view to the moment of the index.
func (r *request) world() (*candidates.World, error) {
	if r.At != "" {
		return r.View.World(r.Context())
	}
	world, view := r.Views.World()
	r.View = view
	return world, nil
}
