package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/document"
)

// The routes on which operators ask for the status of the cluster, and change it.
const (
	clusterPath  = "/cluster"
	stepDownPath = "/cluster/step-down"
	removePath   = "/cluster/remove"
)

// clusterRule is the policy's rule that says who may.
const clusterRule = "allot:cluster"

// maxClusterBody is the size of the largest body, in bytes.
const maxClusterBody = 4 << 10

// errAlone means that there is no cluster.
var errAlone = errors.New("this server is the only one: it was started without --cluster")

// wish is the body of a POST.
type wish struct {
	To   string `json:"to,omitempty"`   // name of the server that is to lead; empty: any other
	Name string `json:"name,omitempty"` // name of the server to forget
}

// cluster are the routes about the cluster, for operators.
func (p restDoorPart) cluster() []route {
	may, replica := auth.Guard(p.access.auth, p.access.policy, clusterRule), p.replica.replica
	guarded := func(method string, answer func(*http.Request) (any, error)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !may(w, r) {
				return
			}
			if r.Method != method {
				w.Header().Set("Allow", method)
				http.Error(w, "only "+method, http.StatusMethodNotAllowed)
				return
			}
			if method == http.MethodPost {
				if err := rest.CheckContentType(r); err != nil {
					http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
					return
				}
			}
			p.answerOperator(w, r, answer)
		})
	}
	status := func(r *http.Request) (any, error) { return replica.Status(r.Context()), nil }
	stepDown := p.granted(func(ctx context.Context, w wish) error { return replica.StepDown(ctx, w.To) })
	remove := p.granted(func(ctx context.Context, w wish) error { return replica.Group().Remove(ctx, w.Name) })
	return []route{
		{clusterPath, guarded(http.MethodGet, status)},
		{stepDownPath, guarded(http.MethodPost, stepDown)},
		{removePath, guarded(http.MethodPost, remove)},
	}
}

func (p restDoorPart) answerOperator(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	if p.replica.replica == nil {
		http.Error(w, errAlone.Error(), http.StatusConflict)
		return
	}
	body, err := answer(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if err := rest.WriteJSON(w, r, nil, http.StatusOK, body); err != nil {
		p.logger.Error("a request about the cluster could not be answered", "error", err)
	}
}

// granted carries out the wish in a body, and returns it.
func (p restDoorPart) granted(carryOut func(context.Context, wish) error) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		lease := p.rest.fair.Lease(r.RemoteAddr)
		defer lease.End()
		var want wish
		body, err := rest.ReadBody(r, lease, maxClusterBody)
		if err == nil && len(body) > 0 {
			err = document.Decode(body, &want)
		}
		if err == nil {
			err = carryOut(r.Context(), want)
		}
		return want, err
	}
}
