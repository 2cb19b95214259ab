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
func showCapacity(r *request) (*response, error) {
	asked, q := *r, newCandidateQuery()
	asked.version = maxVersion
	if failure := checkQuery(&asked); failure != nil {
		return nil, failure
	}
	world, err := r.world()
	if err != nil {
		return nil, err
	}
	asked.View = r.View
	if err := q.parse(&asked, r.Query); err != nil {
		return nil, err
	}
	sums, err := present.SumsBy(r.View, r.Query.Get("by"), r.Query.Get("topology"))
	if errors.Is(err, present.ErrQuery) {
		return nil, rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if err != nil {
		return nil, err
	}
	var marker *ledger.UUID
	if id, given := parseUUID(r.Query.Get("marker")); given { // the schema lets only uuids through
		marker = &id
	}
	q.request.Pause, q.request.MaxSteps = fair.Pause, cmp.Or(r.h.Candidates.MaxSteps, DefaultCandidateSteps)
	return &response{status: http.StatusOK, cache: true, stream: func(out io.Writer) error {
		work := r.Fair.Begin(r.Client())
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
