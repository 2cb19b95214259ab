package main

import (
	"context"
	"net/http"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/cluster"
)

// The paths on which a supervisor or a load balancer asks for the health of the
// server. They need no token, because the answers say nothing about the
// ledger's contents.
const (
	healthPath = "/healthz" // the process runs
	livePath   = "/livez"   // the process makes progress
	readyPath  = "/readyz"  // the server takes requests
)

// readyWait is how long the check that reads are up to date may take.
const readyWait = time.Second

// health is the answer to all three paths.
type health struct {
	Status   string `json:"status"` // "ok", or the reason why not
	Role     string `json:"role"`   // leader, follower or starting
	Term     uint64 `json:"term"`   // 0: this server is the only one
	Leader   string `json:"leader,omitempty"`
	Reads    string `json:"reads,omitempty"`    // "ok", or why reads may be stale; /readyz only
	Commands string `json:"commands,omitempty"` // "ok", or why commands are not taken; /readyz only
	Requests string `json:"requests,omitempty"` // "ok", or why clients should ask another server; /readyz only
	Sequence uint64 `json:"sequence"`           // the sequence up to which the log can be read here
}

const fine = "ok"

// leaving is the reason why a server that is about to end takes no more requests.
const leaving = "the server is stopping"

// startWait is how long requests wait for a server that is starting. Most starts
// take less.
const startWait = 10 * time.Second

// answerStarting answers all requests until the server has started.
func (s *server) answerStarting(w http.ResponseWriter, r *http.Request) {
	reason := "the server is starting"
	if waits := s.waits.Load(); waits != nil {
		reason += ": " + *waits
	}
	h := health{Status: fine, Role: "starting"}
	switch r.URL.Path {
	case healthPath, livePath:
		s.tellHealth(w, r, http.StatusOK, h)
	case readyPath:
		h.Status, h.Reads, h.Commands, h.Requests = reason, reason, reason, reason
		s.tellHealth(w, r, http.StatusServiceUnavailable, h)
	default:
		late := time.NewTimer(startWait)
		defer late.Stop()
		select {
		case <-s.rest.opened:
			s.rest.port.Handler().ServeHTTP(w, r)
			return
		case <-r.Context().Done():
		case <-s.rest.stopping.Done():
		case <-late.C:
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, reason+", and cannot answer yet: try again", http.StatusServiceUnavailable)
	}
}

// health returns the fields that all three answers have.
func (s *server) health() health {
	h := health{Status: fine, Role: cluster.RoleLeader, Sequence: s.views.Checkpoint().Sequence}
	if s.replica != nil {
		h.Role, h.Term, h.Leader = s.replica.Standing()
	}
	return h
}

func (s *server) answerHealth(w http.ResponseWriter, r *http.Request) {
	s.tellHealth(w, r, http.StatusOK, s.health())
}

// answerReady says whether reads are up to date and whether commands are taken.
// With for=reads or for=commands it checks only one of the two. With for=requests it
// says what a load balancer needs to know: whether requests are answered here, if need
// be by the next leader. In a change of leaders no replica's reads are up to date, and
// a balancer that left them all out would refuse what only had to wait.
func (s *server) answerReady(w http.ResponseWriter, r *http.Request) {
	h, status := s.health(), http.StatusOK
	ctx, cancel := context.WithTimeout(r.Context(), readyWait)
	defer cancel()
	fresh := s.readsFresh(ctx)
	h.Reads, h.Commands, h.Requests = said(fresh), said(s.takesCommands()), said(s.answersRequests(fresh))
	if s.rest.leaving.Load() {
		h.Reads, h.Commands, h.Requests = leaving, leaving, leaving
	}
	asked := rest.ParseQuery(r).Get("for")
	switch asked {
	case "", "reads", "commands", "requests":
	default:
		http.Error(w, "for is reads, commands or requests", http.StatusBadRequest)
		return
	}
	for _, check := range []struct{ name, now string }{
		{"reads", h.Reads}, {"commands", h.Commands}, {"requests", h.Requests},
	} {
		if check.now != fine && (asked == check.name || asked == "" && check.name != "requests") {
			h.Status, status = check.name+": "+check.now, http.StatusServiceUnavailable
			break
		}
	}
	s.tellHealth(w, r, status, h)
}

func said(err error) string {
	if err == nil {
		return fine
	}
	return err.Error()
}

func (s *server) readsFresh(ctx context.Context) error {
	if err := s.views.Ready(); err != nil {
		return err
	}
	return s.commands.Fresh(ctx)
}

// answersRequests reports why requests would not be answered here. fresh is whether
// reads are up to date.
func (s *server) answersRequests(fresh error) error {
	if fresh == nil || s.replica == nil || s.views.Ready() != nil {
		return fresh
	}
	return s.replica.Waits()
}

func (s *server) takesCommands() error {
	if err := s.disks.refuse(); err != nil {
		return err
	}
	if s.replica != nil && s.replica.Wedged() != nil {
		return s.replica.Wedged()
	}
	if w := s.leader.writer.Load(); w != nil {
		return w.Stuck()
	}
	if s.replica == nil {
		return commands.ErrStopped
	}
	return s.replica.Led()
}

func (s *server) tellHealth(w http.ResponseWriter, r *http.Request, status int, h health) {
	w.Header().Set("Cache-Control", "no-store")
	if status != http.StatusOK {
		w.Header().Set("Retry-After", "1")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	if err := rest.WriteJSON(w, r, nil, status, h); err != nil {
		s.logger.Error("a request for the server's health could not be answered", "error", err)
	}
}
