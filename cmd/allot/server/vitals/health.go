// Package vitals is what a running server measures of itself: its health, its metrics and its disks.
package vitals

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector"
)

// The paths on which a supervisor or a load balancer asks for the health of the server. They need no token,
// because the answers say nothing about the ledger's contents.
const (
	HealthPath = "/healthz" // the process runs
	LivePath   = "/livez"   // the process makes progress
	ReadyPath  = "/readyz"  // the server takes requests
)

// readyWait is how long the check that reads are up to date may take.
const readyWait = time.Second

// Health is the answer to all three paths.
type Health struct {
	Status   string `json:"status"` // "ok", or the reason why not
	Role     string `json:"role"`   // leader, follower or starting
	Term     uint64 `json:"term"`   // 0: this server is the only one
	Leader   string `json:"leader,omitempty"`
	Reads    string `json:"reads,omitempty"`    // "ok", or why reads may be stale; /readyz only
	Commands string `json:"commands,omitempty"` // "ok", or why commands are not taken; /readyz only
	Requests string `json:"requests,omitempty"` // "ok", or why clients should ask another server; /readyz only
	// Checkpoints is "ok", or why the last one lacks the cosignatures of witnesses, which is no reason not to take
	// requests; empty: there are no witnesses; /readyz only
	Checkpoints string `json:"checkpoints,omitempty"`
	Keystone    string `json:"keystone,omitempty"` // "ok", or that new tokens cannot be checked; /readyz only, and no reason for a 503
	Sequence    uint64 `json:"sequence"`           // the sequence up to which the log can be read here
}

const fine = "ok"

// leaving is the reason why a server that is about to end takes no more requests.
const leaving = "the server is stopping"

// startWait is how long requests wait for a server that is starting. Most starts take less.
const startWait = 10 * time.Second

// Starting answers all requests until the server has started.
type Starting struct {
	Waits   *atomic.Pointer[string] // what the start waits for; nil: nothing that takes long
	Opened  <-chan struct{}         // closed when requests are answered
	Stopped <-chan struct{}         // closed when the server is to stop
	Then    func() http.Handler     // what answers them
	Logger  *slog.Logger
}

// ServeHTTP implements http.Handler.
func (s *Starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reason := "the server is starting"
	if waits := s.Waits.Load(); waits != nil {
		reason += ": " + *waits
	}
	h := Health{Status: fine, Role: "starting"}
	switch r.URL.Path {
	case HealthPath, LivePath:
		h.tell(w, r, http.StatusOK, s.Logger)
	case ReadyPath:
		h.Status, h.Reads, h.Commands, h.Requests = reason, reason, reason, reason
		h.tell(w, r, http.StatusServiceUnavailable, s.Logger)
	default:
		select {
		case <-s.Opened:
			s.Then().ServeHTTP(w, r)
			return
		case <-r.Context().Done():
		case <-s.Stopped:
		case <-time.After(startWait):
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, reason+", and cannot answer yet: try again", http.StatusServiceUnavailable)
	}
}

// Checks answer the three paths once the server has started.
type Checks struct {
	Views   *projector.Projector
	Replica *leading.Replica // nil: this server is the only one
	Fresh   commands.Freshness
	Disks   *Disks
	Writer  func() *writer.Writer // nil: none has started here yet
	Leaving *atomic.Bool          // clients should send requests elsewhere
	Tokens  func() error          // whether Keystone answers; nil: there is none
	// Witnesses cosign checkpoints; nil: there are none
	Witnesses *witness.Group
	Logger    *slog.Logger
}

func (c *Checks) now() Health {
	h := Health{Status: fine, Role: members.RoleLeader, Sequence: c.Views.Checkpoint().Sequence}
	if c.Replica != nil {
		h.Role, h.Term, h.Leader = c.Replica.Standing()
	}
	return h
}

// Alive says that the process lives.
func (c *Checks) Alive(w http.ResponseWriter, r *http.Request) {
	c.now().tell(w, r, http.StatusOK, c.Logger)
}

// Ready says whether reads are up to date and whether commands are taken. With for=reads or for=commands it
// checks only one of the two. With for=requests it says what a load balancer needs to know: whether requests
// are answered here, if need be by the next leader. In a change of leaders no replica's reads are up to date,
// and a balancer that left them all out would refuse what only had to wait.
func (c *Checks) Ready(w http.ResponseWriter, r *http.Request) {
	h, status := c.now(), http.StatusOK
	ctx, cancel := context.WithTimeout(r.Context(), readyWait)
	defer cancel()
	fresh := c.readsFresh(ctx)
	h.Reads, h.Commands, h.Requests = said(fresh), said(c.takesCommands()), said(c.answersRequests(fresh))
	if c.Witnesses != nil {
		h.Checkpoints = cmp.Or(c.Witnesses.Fault(), fine)
	}
	if c.Leaving.Load() {
		h.Reads, h.Commands, h.Requests = leaving, leaving, leaving
	}
	if c.Tokens != nil {
		h.Keystone = fine
		if c.Tokens() != nil { // the reason is in the log, because these answers need no token
			h.Keystone = "Keystone does not answer: tokens that are not known yet cannot be checked"
		}
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
	h.tell(w, r, status, c.Logger)
}

func said(err error) string {
	if err == nil {
		return fine
	}
	return err.Error()
}

func (c *Checks) readsFresh(ctx context.Context) error {
	if err := c.Views.Ready(); err != nil {
		return err
	}
	return c.Fresh.Fresh(ctx)
}

// answersRequests reports why requests would not be answered here. fresh is whether reads are up to date.
func (c *Checks) answersRequests(fresh error) error {
	if fresh == nil || c.Replica == nil || c.Views.Ready() != nil {
		return fresh
	}
	return c.Replica.Waits()
}

func (c *Checks) takesCommands() error {
	if err := c.Disks.Refuse(); err != nil {
		return err
	}
	if c.Replica != nil && c.Replica.Wedged() != nil {
		return c.Replica.Wedged()
	}
	if w := c.Writer(); w != nil {
		return w.Stuck()
	}
	if c.Replica == nil {
		return commands.ErrStopped
	}
	return c.Replica.Led()
}

func (h Health) tell(w http.ResponseWriter, r *http.Request, status int, logger *slog.Logger) {
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
		logger.Error("a request for the server's health could not be answered", "error", err)
	}
}
