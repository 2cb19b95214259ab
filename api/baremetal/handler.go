package baremetal

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// MaxBodyBytes is the largest request body: one that names as many
// candidate nodes as are possible takes less than 1 MiB.
const MaxBodyBytes = 4 << 20

// DefaultMaxLimit is how many entries a page has at most (Ironic's max_limit).
const DefaultMaxLimit = 1000

// Handler serves the API below one path prefix.
type Handler struct {
	Commands commands.Submitter
	Views    *projector.Projector
	Logger   *slog.Logger
	// Prefix is the path that the API is mounted at: empty or "/baremetal".
	Prefix string
	// PublicURL begins the links, instead of the host that the client named;
	// without a slash at its end.
	PublicURL string
	// Auth finds out who sends a request, and Policy what they may do.
	Auth   auth.Authenticator
	Policy *policy.Rules
	// Noauth lets requests without a token, or with the one that Ironic's
	// clients send where there is no authentication, do everything.
	Noauth bool
	// Intake bounds what bodies take in memory; nil: each by itself.
	Intake *intake.Pool
	// MaxLimit bounds pages; 0: DefaultMaxLimit.
	MaxLimit int
	// Now is the clock that decides what is in the future; nil: time.Now.
	Now func() time.Time
}

// request is a request on its way.
type request struct {
	*http.Request
	h       *Handler
	id      string
	base    string   // what links begin with
	path    []string // below /v1, decoded
	query   *rest.Query
	version version
	who     policy.Identity
	view    projector.View
	dryRun  bool
	lease   *intake.Lease // of the memory that the body takes
	// mayWrite: a rule has let the client write. Only then is a body read.
	mayWrite bool
}

// response is a success.
type response struct {
	status   int
	body     any    // nil: none
	location string // path below the base
}

func ok(body any) *response { return &response{status: http.StatusOK, body: body} }

func noContent() *response { return &response{status: http.StatusNoContent} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr, h: h, id: "req-" + uuid.NewString(), query: rest.ParseQuery(hr)}
	w.Header().Set("X-Openstack-Request-Id", r.id)
	if r.base = h.PublicURL; r.base == "" {
		r.base = rest.Base(hr) + h.Prefix
	}
	defer func() { r.lease.End() }()
	answer, err := r.serve(w)
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
		return nil, badRequest("%v", err)
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
	var failure *apiError
	if r.version, failure = negotiate(r.Header); failure != nil {
		return nil, failure
	}
	w.Header().Set(versionHeader, r.version.String())
	w.Header().Set(standardHeader, serviceType+" "+r.version.String())
	if len(path) == 0 {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return nil, methodNotAllowed("GET")
		}
		return ok(r.versionDocument()), nil
	}
	r.path = path
	if err := r.prepare(); err != nil {
		return nil, err
	}
	return r.route(path)
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

// anonymousToken is what Ironic's clients send without authentication.
const anonymousToken = "notused"

// prepare finds out who asks about which moment.
func (r *request) prepare() error {
	var err error
	if token := r.Header.Get(auth.TokenHeader); r.h.Noauth && (token == "" || token == anonymousToken) {
		r.who = policy.Identity{User: "admin", Project: "admin", Roles: []string{"admin"}, Believed: true}
	} else if r.who, err = r.h.Auth.Authenticate(r.Request); err != nil {
		return err
	}
	r.lease = r.h.Intake.New(r.who.Client(r.RemoteAddr))
	if err := r.query.Fault(); err != nil {
		return badRequest("Invalid query string: %v", err)
	}
	at, err := r.query.TakeAt(r.Request)
	if err != nil {
		return badRequest("%v", err)
	}
	if r.dryRun, err = r.query.TakeDryRun(r.Request); err != nil {
		return badRequest("%v", err)
	}
	now := time.Now
	if r.h.Now != nil {
		now = r.h.Now
	}
	r.view, err = answers.ViewAt(r.h.Views, at, now())
	if errors.Is(err, answers.ErrMoment) {
		return badRequest("%v", err)
	}
	if err == nil && r.Method != http.MethodGet && r.Header.Get(rest.CommandIDHeader) != "" {
		err = r.lookBack()
	}
	return err
}

// lookBack lets a request that is sent again, and was carried out before, find
// the names as they were then: what it deleted, for one.
func (r *request) lookBack() error {
	id, err := rest.CommandID(r.Request)
	if err != nil {
		return badRequest("%v", err)
	}
	first, known, err := r.h.Views.Command(id)
	if err == nil && known && first.Address.Sequence > 1 {
		r.view, err = r.h.Views.ViewAt(first.Address.Sequence - 1)
	}
	return err
}

func (r *request) route(path []string) (*response, error) {
	switch {
	case path[0] == "allocations" && len(path) <= 2:
		return r.allocations(path[1:])
	case path[0] == "nodes" && len(path) == 1:
		return r.nodes()
	case path[0] == "nodes" && len(path) == 2 && path[1] == "detail":
		return r.nodeDetails()
	case path[0] == "nodes" && len(path) == 2:
		return r.node(path[1])
	case path[0] == "nodes":
		return r.nodePart(path[1], path[2:])
	}
	return nil, notFound("There is no %s here: this ledger keeps nodes and allocations, and contacts no hardware.", strings.Join(path, "/"))
}

// methods maps a request's method to its handler; others get a 405.
func (r *request) methods(handlers map[string]func() (*response, error)) (*response, error) {
	if err := checkListed(r.path); err != nil {
		return nil, err
	}
	if handle, known := handlers[r.Method]; known {
		return handle()
	}
	var allow []string
	for method := range handlers {
		allow = append(allow, method)
	}
	slices.Sort(allow)
	return nil, methodNotAllowed(strings.Join(allow, ", "))
}

// allows asks the policy.
func (r *request) allows(rule string, target policy.Target) bool {
	allowed := r.h.Policy.Allows(rule, r.who, target)
	r.mayWrite = r.mayWrite || allowed && !readingRule.MatchString(rule)
	return allowed
}

// readingRule matches the rules that let nobody write.
var readingRule = regexp.MustCompile(`:(get|list|list_all)$`)

func forbidden(rule string) *apiError {
	return errorf(http.StatusForbidden, "Access was denied to the following resource: %s", rule)
}

// submit carries a command out.
func (r *request) submit(c commands.Command) (commands.Outcome, *commands.Rejection, error) {
	id, err := rest.CommandID(r.Request)
	if err != nil {
		return commands.Outcome{}, nil, badRequest("%v", err)
	}
	outcome, err := rest.Submit(r.Request, r.h.Commands, commands.Submission{
		ID: id, Actor: r.who.User, RequestID: r.id, Command: c, DryRun: r.dryRun,
	})
	if err != nil {
		return outcome, nil, err
	}
	if r.view = r.h.Views.View(); outcome.Repeated {
		r.view, err = r.h.Views.ViewAt(outcome.Address.Sequence)
	}
	return outcome, outcome.Rejection, err
}

// accepted submits a command whose rejections need no words of the handler's.
func (r *request) accepted(what string, c commands.Command, answer *response) (*response, error) {
	_, rejection, err := r.submit(c)
	if err != nil {
		return nil, err
	}
	if rejection != nil {
		return nil, rejected(what, rejection)
	}
	return answer, nil
}

func (r *request) writeFailure(w http.ResponseWriter, err error) {
	var failure *apiError
	message, unavailable := rest.Unavailable(err)
	switch {
	case errors.As(err, &failure):
	case unavailable:
		r.h.Logger.Warn("request not answered", "request_id", r.id, "error", err)
		failure = errorf(http.StatusServiceUnavailable, "%s", message)
		failure.retryAfter = rest.RetryAfterSeconds
	default:
		r.h.Logger.Error("request failed", "request_id", r.id, "method", r.Method, "path", r.URL.Path, "error", err)
		failure = errorf(http.StatusInternalServerError, "the request failed; its id is in the server's log")
	}
	writeError(w, r.Request, failure)
}

func (r *request) write(w http.ResponseWriter, answer *response) {
	header := w.Header()
	if answer.location != "" {
		header.Set("Location", r.base+answer.location)
	}
	if r.Method == http.MethodGet && r.view.Sequence() > 0 {
		header.Set(rest.SequenceHeader, strconv.FormatUint(r.view.Sequence(), 10))
	}
	if answer.body == nil {
		w.WriteHeader(answer.status)
		return
	}
	body, err := ledger.PlainJSON(answer.body)
	if err != nil {
		r.writeFailure(w, err)
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone if this fails
	}
}
