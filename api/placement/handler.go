package placement

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/projector"
)

// Limits of requests.
const (
	// MaxBodyBytes is the size of the largest request body: a reshape of 10,000
	// consumers takes about 4 MiB.
	MaxBodyBytes = 16 << 20
)

// Handler serves the API below one path prefix.
type Handler struct {
	// Fresh tells when Views hold everything that other servers have answered;
	// nil: always.
	Fresh    commands.Freshness
	Commands commands.Submitter
	Views    *projector.Projector
	Logger   *slog.Logger
	// Prefix is the path at which clouds mount the API: empty or "/placement".
	Prefix string
	// Auth finds out who sends a request, and Policy what the sender may do.
	Auth   auth.Authenticator
	Policy *policy.Rules
	// Candidates bounds and orders the candidates of GET /allocation_candidates.
	Candidates CandidateOptions
	// Fair shares out memory and places among clients; nil: each request has its own.
	Fair *fair.Pool
	// Now is the clock that tells whether a moment is in the future; nil:
	// time.Now.
	Now func() time.Time
}

// incompleteID owns consumers that are written below microversion 1.8, where clients name no owner: upstream's default
// for incomplete_consumer_project_id and incomplete_consumer_user_id.
const incompleteID = "00000000-0000-0000-0000-000000000000"

// request is a request on its way through the checks.
type request struct {
	*http.Request
	id         string // x-openstack-request-id
	prefix     string
	version    version
	negotiated bool
	who        policy.Identity
	params     []string
	query      *rest.Query
	lease      *fair.Lease // lease of the body's memory
	op         *operation
	work       *fair.Work // of a read, or of decoding a large body; nil: none
	read       bool       // the body; then it is in body, or bodyFault says why not
	body       []byte
	bodyFault  error
	submitted  bool // a command
	view       projector.View
	at         string // the moment that the client asks about; empty: now
	dryRun     bool   // the client asks for a dry run
}

// response is a successful answer.
type response struct {
	status   int
	body     any                   // nil: none
	stream   func(io.Writer) error // writes the body instead of it
	location string                // path below the prefix
	cache    bool                  // Last-Modified and Cache-Control apply (1.15)
	modified int64                 // Unix nanoseconds; 0: now
	// noModified leaves Last-Modified out.
	noModified bool
}

const cacheHeadersSince version = 15

// ServeHTTP makes Placement's checks in Placement's order: authentication,
// microversion, body headers, route, microversion of the route, media types,
// policy, and then the handler's own checks.
func (h *Handler) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	rest.TellSequence(w, h.Views.Checkpoint().Sequence)
	r := &request{Request: hr, id: rest.NewRequestID(w), prefix: h.Prefix, query: rest.ParseQuery(hr)}
	if accept := r.Header.Get("Accept"); accept == "*/*" {
		r.Header.Del("Accept")
	}
	path := strings.TrimPrefix(hr.URL.EscapedPath(), h.Prefix)
	if path != "" && path != "/" && path != "/openapi.json" {
		var err error
		if r.who, err = h.Auth.Authenticate(hr); errors.Is(err, auth.ErrUnauthorized) {
			auth.WriteUnauthorized(w, h.Auth)
			return
		} else if err != nil {
			h.writeFailure(w, r, err)
			return
		}
	}
	r.lease = h.Fair.Lease(r.who.Client(hr.RemoteAddr))
	defer r.lease.End()
	if err := h.prepare(w, r, path); err != nil {
		h.writeFailure(w, r, err)
		return
	}
	// The command of a write follows from the request alone, and the server that
	// leads decides it. What a handler reads before can be old: it only finds
	// reasons not to submit the command at all, and those must hold now.
	writes := r.op.method != http.MethodGet
	answer, err := h.carryOut(r, writes)
	if err != nil && writes && r.op.looks && !r.submitted && h.Fresh != nil {
		answer, err = h.carryOut(r, false)
	}
	var rehearsal *rest.Rehearsal
	if errors.As(err, &rehearsal) {
		answer, err = &response{status: http.StatusOK, body: rehearsal.Body()}, nil
	}
	if err != nil {
		h.writeFailure(w, r, err)
		return
	}
	h.write(w, r, answer)
}

// prepare finds a request's operation, and whether its sender may ask for it.
func (h *Handler) prepare(w http.ResponseWriter, r *request, path string) error {
	v, failure := microversions.Negotiate(r.Header)
	if failure != nil {
		return failure
	}
	r.version, r.negotiated = v, true
	w.Header().Set(rest.VersionHeader, serviceType+" "+v.String())
	w.Header().Set("Vary", "openstack-api-version") // upstream's spelling
	if failure := checkContentLength(r.Request); failure != nil {
		return failure
	}
	rt, params := findRoute(path)
	if rt == nil {
		return rest.NotFound("")
	}
	r.Pattern = rt.pattern
	r.params = params
	op, known := rt.find(r.Method, v)
	if !known {
		failure := rest.Errorf(http.StatusMethodNotAllowed, "The method specified is not allowed for this resource.")
		failure.Allow = rt.allow()
		return failure
	}
	r.op = op
	if failure := checkOperation(r, op); failure != nil {
		return failure
	}
	if op.rule != "" {
		if err := h.authorize(r, op); err != nil {
			return err
		}
	}
	if err := r.query.Fault(); err != nil {
		return rest.BadRequest("Invalid query string parameters: %v", err)
	}
	var err error
	if r.at, err = r.query.TakeAt(r.Request); err != nil {
		return rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if r.dryRun, err = r.query.TakeDryRun(r.Request); err != nil {
		return rest.BadRequest("Invalid query string parameters: %v", err)
	}
	return nil
}

// carryOut calls the operation's handler, with a view that may be old, or else with
// one that holds everything that other servers have answered.
func (h *Handler) carryOut(r *request, old bool) (_ *response, err error) {
	if err := rest.Await(r.Request, h.Views, h.Fresh, old); err != nil {
		return nil, err
	}
	if r.view, err = rest.ViewAt(h.Views, r.at, h.Now); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		if r.work, err = h.place(r); err != nil {
			return nil, err
		}
	}
	defer r.endWork()
	return r.op.handle(h, r)
}

// endWork gives up the place that a request has, if it has one.
func (r *request) endWork() {
	r.work.End()
	r.work = nil
}

// place waits for a place for a read. What locks guard, such as indexes of the past, is
// only asked for with one.
func (h *Handler) place(r *request) (*fair.Work, error) {
	if r.at != "" {
		return h.Fair.Long(r.Context(), r.who.Client(r.RemoteAddr))
	}
	return h.Fair.Short(r.Context(), r.who.Client(r.RemoteAddr))
}

// authorize asks the policy. A token of another scope than a project's may do
// nothing (enforce_scope), and the text for it differs.
func (h *Handler) authorize(r *request, op *operation) error {
	rule, target := op.rule, policy.Target{"project_id": r.query.Get("project_id")}
	switch {
	case !policy.InScope(rule, r.who):
		return rest.Errorf(http.StatusForbidden, "%s", rule)
	case h.Policy.Allows(rule, r.who, target):
		return nil
	}
	return rest.Errorf(http.StatusForbidden, "Policy does not allow %s to be performed.", rule)
}

// checkContentLength requires a content type for a body. The standard library has
// refused malformed lengths before.
func checkContentLength(r *http.Request) *rest.Failure {
	if r.ContentLength > 0 && r.Header.Get("Content-Type") == "" {
		return rest.BadRequest("content-type header required when content-length > 0")
	}
	return nil
}

// checkOperation checks microversion and media types, in the order that the
// operation has them.
func checkOperation(r *request, op *operation) *rest.Failure {
	var outOfRange *rest.Failure
	if r.version < op.from || r.version > op.until {
		outOfRange = rest.NotFound("")
		if op.method == http.MethodDelete && strings.HasSuffix(op.rule, "inventories:delete") {
			outOfRange = rest.Errorf(http.StatusMethodNotAllowed, "") // without Allow, as upstream
		}
	}
	media := checkMedia(r, op)
	if op.mediaFirst && media != nil {
		return media
	}
	if outOfRange != nil {
		return outOfRange
	}
	return media
}

func checkMedia(r *request, op *operation) *rest.Failure {
	if op.reads && !acceptsJSON(r.Header.Get("Accept")) {
		return rest.Errorf(http.StatusNotAcceptable, "Only application/json is provided")
	}
	if op.body == "" {
		return nil
	}
	given := r.Header.Get("Content-Type")
	if mediaType, _, err := mime.ParseMediaType(given); err == nil && mediaType == jsonType {
		return nil
	}
	if given == "" {
		given = "None"
	}
	return rest.Errorf(http.StatusUnsupportedMediaType, "The media type %s is not supported, use application/json", given)
}

// writeFailure answers with an error.
func (h *Handler) writeFailure(w http.ResponseWriter, r *request, err error) {
	if r.view.Sequence() > 0 {
		rest.TellSequence(w, r.view.Sequence())
	}
	writeError(w, r, rest.FailureOf(err, r.Request, r.id, h.Logger))
}

func (h *Handler) write(w http.ResponseWriter, r *request, answer *response) {
	header := w.Header()
	if answer.location != "" {
		header.Set("Location", rest.Base(r.Request)+h.Prefix+answer.location)
	}
	if answer.cache && r.version >= cacheHeadersSince {
		header.Set("Cache-Control", "no-cache")
		if !answer.noModified {
			header.Set("Last-Modified", lastModified(answer.modified))
		}
	}
	if r.view.Sequence() > 0 {
		rest.TellSequence(w, r.view.Sequence())
	}
	if answer.stream != nil {
		h.writeStream(w, r, answer)
		return
	}
	if answer.body == nil {
		w.WriteHeader(answer.status)
		return
	}
	if err := rest.WriteJSON(w, r.Request, r.lease, answer.status, answer.body); err != nil {
		h.writeFailure(w, r, err)
	}
}

func lastModified(at int64) string {
	t := time.Now()
	if at != 0 {
		t = time.Unix(0, at)
	}
	return t.UTC().Format(http.TimeFormat)
}

// ok returns a 200 with a body.
func ok(body any, modified int64) *response {
	return &response{status: http.StatusOK, body: body, cache: true, modified: modified}
}

// noContent returns a 204.
func noContent() *response { return &response{status: http.StatusNoContent} }

// submit carries a command out for a request. It returns a rejection as a value,
// because each handler has its own texts for rejections.
func (h *Handler) submit(r *request, c commands.Command) (commands.Outcome, *demand.Rejection, error) {
	r.submitted = true
	r.endWork()
	s := commands.Submission{
		Actor: r.who.User, RequestID: r.id, Command: c, DryRun: r.dryRun,
		Client: r.who.Client(r.RemoteAddr), Bulk: h.Policy.LoadsInBulk(r.who),
	}
	if err := rest.Identify(r.Request, &s); err != nil {
		return commands.Outcome{}, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), rest.SubmitTimeout)
	defer cancel()
	outcome, err := h.Commands.Submit(ctx, s)
	if err = rest.Rehearsed(&s, outcome, err); err != nil {
		return outcome, nil, err
	}
	r.view = h.Views.View()
	return outcome, outcome.Rejection.Redacted(h.Policy.SeesLimits(r.who)), nil
}

// noContentAfter answers a command that clients see nothing of, or says why it was refused.
func (h *Handler) noContentAfter(
	r *request, c commands.Command, refused func(*demand.Rejection) *rest.Failure,
) (*response, error) {
	_, rejection, err := h.submit(r, c)
	if err != nil {
		return nil, err
	}
	if rejection != nil {
		return nil, refused(rejection)
	}
	return noContent(), nil
}
