package main

import (
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

// clusterRoutes are the routes about the cluster.
func (s *server) clusterRoutes() []route {
	may := auth.Guard(s.access.auth, s.access.policy, clusterRule)
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
			s.answerCluster(w, r, answer)
		})
	}
	return []route{
		{clusterPath, "status of the cluster", guarded(http.MethodGet, s.clusterStatus)},
		{stepDownPath, "make another server lead", guarded(http.MethodPost, s.stepDown)},
		{removePath, "forget a server that will not come back", guarded(http.MethodPost, s.removeMember)},
	}
}

func (s *server) answerCluster(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	if s.replica == nil {
		http.Error(w, errAlone.Error(), http.StatusConflict)
		return
	}
	body, err := answer(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if err := rest.WriteJSON(w, r, nil, http.StatusOK, body); err != nil {
		s.logger.Error("a request about the cluster could not be answered", "error", err)
	}
}

func (s *server) clusterStatus(r *http.Request) (any, error) {
	return s.replica.Status(r.Context()), nil
}

func (s *server) stepDown(r *http.Request) (any, error) {
	want, err := s.readWish(r)
	if err != nil {
		return nil, err
	}
	return want, s.replica.StepDown(r.Context(), want.To)
}

func (s *server) removeMember(r *http.Request) (any, error) {
	want, err := s.readWish(r)
	if err != nil {
		return nil, err
	}
	return want, s.replica.Remove(r.Context(), want.Name)
}

func (s *server) readWish(r *http.Request) (want wish, err error) {
	lease := s.fair.Lease(r.RemoteAddr)
	defer lease.End()
	body, err := rest.ReadBody(r, lease, maxClusterBody)
	if err != nil || len(body) == 0 {
		return want, err
	}
	return want, document.Decode(body, &want)
}
