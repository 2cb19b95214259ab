package baremetal

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/projector"
)

// MaxBodyBytes is the size of the largest request body. A body with the largest
// number of candidate nodes takes less than 1 MiB.
const MaxBodyBytes = 4 << 20

// DefaultMaxLimit is the largest number of entries on a page (Ironic's
// max_limit).
const DefaultMaxLimit = 1000

// Handler serves the API below one path prefix.
type Handler struct {
	// Fresh tells when Views hold everything that other servers have answered;
	// nil: always.
	Fresh    commands.Freshness
	Commands commands.Submitter
	Views    *projector.Projector
	Logger   *slog.Logger
	// Prefix is the path that the API is mounted at: empty or "/baremetal".
	Prefix string
	// PublicURL is the beginning of links, instead of the host that the client
	// named. It has no slash at its end.
	PublicURL string
	// Auth finds out who sends a request, and Policy what the sender may do.
	Auth   auth.Authenticator
	Policy *policy.Rules
	// Noauth permits everything to requests without a token, or with the token
	// that Ironic's clients send where there is no authentication.
	Noauth bool
	// Fair shares out memory and places among clients; nil: each request has its own.
	Fair *fair.Pool
	// MaxLimit is the largest number of entries on a page; 0: DefaultMaxLimit.
	MaxLimit int
	// Now is the clock that tells whether a moment is in the future; nil:
	// time.Now.
	Now func() time.Time
}

// request is a request that is being answered.
type request struct {
	*http.Request
	h       *Handler
	id      string
	base    string   // beginning of links
	path    []string // path below /v1, decoded
	ident   string   // of what the path names
	query   *rest.Query
	version version
	who     policy.Identity
	view    projector.View
	dryRun  bool
	work    *fair.Work  // of a read; nil: it has none
	lease   *fair.Lease // lease of the body's memory
	// mayWrite means that a rule has permitted the client to write. Only then is
	// a body read.
	mayWrite bool
}

// response is a successful answer.
type response struct {
	status   int
	body     any    // nil: none
	location string // path below the base
}

func ok(body any) *response { return &response{status: http.StatusOK, body: body} }

func noContent() *response { return &response{status: http.StatusNoContent} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr, h: h, id: rest.NewRequestID(w), query: rest.ParseQuery(hr)}
	if r.base = h.PublicURL; r.base == "" {
		r.base = rest.Base(hr) + h.Prefix
	}
	defer func() { r.lease.End() }()
	answer, err := r.serve(w)
	r.work.End() // an answer is written without a place, however slowly the client reads
	var rehearsal *rest.Rehearsal
	if errors.As(err, &rehearsal) {
		answer, err = ok(rehearsal.Body()), nil
	}
	if errors.Is(err, auth.ErrUnauthorized) {
		auth.WriteUnauthorized(w, h.Auth)
		return
	}
	if err != nil {
		r.writeFailure(w, err)
		return
	}
	r.write(w, answer)
}

func (r *request) serve(w http.ResponseWriter) (*response, error) {
	path, err := splitPath(strings.TrimPrefix(r.URL.EscapedPath(), r.h.Prefix))
	if err != nil {
		return nil, rest.BadRequest("%v", err)
	}
	if len(path) == 0 {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return nil, methodNotAllowed("GET")
		}
		return ok(r.index()), nil
	}
	if path[0] == "v1" { // bookmarks have none
		path = path[1:]
	}
	w.Header().Set(minVersionHeader, minVersion.String())
	w.Header().Set(maxVersionHeader, maxVersion.String())
	var failure *rest.Failure
	if r.version, failure = microversions.Negotiate(r.Header); failure != nil {
		return nil, failure
	}
	w.Header().Set(versionHeader, r.version.String())
	w.Header().Set(rest.VersionHeader, serviceType+" "+r.version.String())
	if len(path) == 0 {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return nil, methodNotAllowed("GET")
		}
		return ok(r.versionDocument()), nil
	}
	if r.path = path; len(path) > 1 {
		r.ident = path[1]
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	return r.route()
}

// splitPath splits a path into its decoded segments.
func splitPath(path string) ([]string, error) {
	var segments []string
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if part == "" {
			continue
		}
		segment, err := url.PathUnescape(part)
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment)
	}
	return segments, nil
}

// anonymousToken is the token that Ironic's clients send without authentication.
const anonymousToken = "notused"

// prepare finds out who sends the request, and which moment it is about.
func (r *request) prepare() error {
	var err error
	if token := r.Header.Get(auth.TokenHeader); r.h.Noauth && (token == "" || token == anonymousToken) {
		r.who = policy.Identity{User: "admin", Project: "admin", Roles: []string{"admin"}, Believed: true}
	} else if r.who, err = r.h.Auth.Authenticate(r.Request); err != nil {
		return err
	}
	r.lease = r.h.Fair.Lease(r.who.Client(r.RemoteAddr))
	if err := r.query.Fault(); err != nil {
		return rest.BadRequest("Invalid query string: %v", err)
	}
	at, err := r.query.TakeAt(r.Request)
	if err != nil {
		return rest.BadRequest("%v", err)
	}
	if r.dryRun, err = r.query.TakeDryRun(r.Request); err != nil {
		return rest.BadRequest("%v", err)
	}
	if err := rest.Await(r.Request, r.h.Views, r.h.Fresh, false); err != nil {
		return err
	}
	take := r.h.Fair.Short
	if at != "" {
		take = r.h.Fair.Long
	}
	if r.Method == http.MethodGet {
		if r.work, err = take(r.Context(), r.who.Client(r.RemoteAddr)); err != nil {
			return err
		}
	}
	r.view, err = rest.ViewAt(r.h.Views, at, r.h.Now)
	if err == nil && r.Method != http.MethodGet && r.Header.Get(rest.CommandIDHeader) != "" {
		err = r.lookBack()
	}
	return err
}

// lookBack handles a request that was carried out before and is sent again. It
// finds names as they were before the first time; otherwise a repeated deletion
// would not find what it deleted.
func (r *request) lookBack() error {
	id, err := rest.CommandID(r.Request)
	if err != nil {
		return rest.BadRequest("%v", err)
	}
	first, known, err := r.h.Views.Command(id)
	if err == nil && known && first.Address.Sequence > 1 {
		r.view, err = r.h.Views.ViewAt(first.Address.Sequence - 1)
	}
	return err
}

// allows asks the policy.
func (r *request) allows(rule string, target policy.Target) bool {
	allowed := r.h.Policy.Allows(rule, r.who, target)
	r.mayWrite = r.mayWrite || allowed && !readingRule.MatchString(rule)
	return allowed
}

// readingRule matches the rules that only permit reading.
var readingRule = regexp.MustCompile(`:(get|list|list_all)$`)

func forbidden(rule string) *rest.Failure {
	return rest.Errorf(http.StatusForbidden, "Access was denied to the following resource: %s", rule)
}

func (r *request) writeFailure(w http.ResponseWriter, err error) {
	if r.view.Sequence() > 0 {
		rest.TellSequence(w, r.view.Sequence())
	}
	writeError(w, r.Request, rest.FailureOf(err, r.Request, r.id, r.h.Logger))
}

func (r *request) write(w http.ResponseWriter, answer *response) {
	header := w.Header()
	if answer.location != "" {
		header.Set("Location", r.base+answer.location)
	}
	if r.view.Sequence() > 0 {
		rest.TellSequence(w, r.view.Sequence())
	}
	if answer.body == nil {
		w.WriteHeader(answer.status)
		return
	}
	if err := rest.WriteJSON(w, r.Request, r.lease, answer.status, answer.body); err != nil {
		r.writeFailure(w, err)
	}
}
