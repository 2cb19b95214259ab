package placement

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
)

// showCapacity reads a request as GET /allocation_candidates does, in the newest microversion
// whatever the request's is, and counts how many more such allocations fit.
func showCapacity(h *Handler, r *request) (*response, error) {
	asked, q := *r, newCandidateQuery()
	asked.version = maxVersion
	if failure := checkQuery(&asked); failure != nil {
		return nil, failure
	}
	world, err := h.world(r)
	if err != nil {
		return nil, err
	}
	asked.view = r.view
	if err := q.parse(&asked, r.query); err != nil {
		return nil, err
	}
	sums, err := present.SumsBy(r.view, r.query.Get("by"), r.query.Get("topology"))
	if errors.Is(err, present.ErrQuery) {
		return nil, rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if err != nil {
		return nil, err
	}
	var marker *ledger.UUID
	if id, given := parseUUID(r.query.Get("marker")); given { // the schema lets only uuids through
		marker = &id
	}
	q.request.Pause, q.request.MaxSteps = fair.Pause, cmp.Or(h.Candidates.MaxSteps, DefaultCandidateSteps)
	return &response{status: http.StatusOK, cache: true, stream: func(out io.Writer) error {
		work := h.Fair.Begin(r.who.Client(r.RemoteAddr))
		defer work.End()
		capacity, err := present.Capacity(work.Within(r.Context()), world, &q.request, sums, marker)
		if errors.Is(err, present.ErrQuery) {
			return rest.BadRequest("Invalid query string parameters: %v", err)
		}
		if err != nil {
			return err
		}
		text, err := ledger.PlainJSON(capacity)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}}, nil
}
