// Package placement serves the OpenStack Placement REST API, microversions 1.0 to
// 1.39, over the ledger. It decodes requests into commands, submits them, and
// encodes Views. Clients notice no difference from upstream, except those that
// docs/compatibility.md lists.
package placement

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/projector/candidates"
)

// Limits of requests.
const (
	// MaxBodyBytes is the size of the largest request body: a reshape of 10,000
	// consumers takes about 4 MiB.
	MaxBodyBytes = 16 << 20
)

// Handler serves the API below one path prefix, which is empty or "/placement".
type Handler struct {
	rest.Facade
	// Candidates bounds and orders the candidates of GET /allocation_candidates.
	Candidates CandidateOptions
}

// incompleteID owns consumers that are written below microversion 1.8, where clients name no owner: upstream's default
// for incomplete_consumer_project_id and incomplete_consumer_user_id.
const incompleteID = "00000000-0000-0000-0000-000000000000"

type request struct {
	rest.Call
	h          *Handler
	version    version
	negotiated bool
	params     []string
	op         *operation
	read       bool // the body; then it is in body, or bodyFault says why not
	body       []byte
	bodyFault  error
	looked     bool // for the provider
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
	r := &request{Call: h.Receive(w, hr), h: h}
	if accept := r.Header.Get("Accept"); accept == "*/*" {
		r.Header.Del("Accept")
	}
	path := strings.TrimPrefix(hr.URL.EscapedPath(), h.Prefix)
	if path != "" && path != "/" {
		var err error
		if r.Who, err = h.Auth.Authenticate(hr); errors.Is(err, auth.ErrUnauthorized) {
			auth.WriteUnauthorized(w, h.Auth)
			return
		} else if err != nil {
			r.writeFailure(w, err)
			return
		}
	}
	r.Lease = h.Fair.Lease(r.Client())
	defer r.Lease.End()
	var answer *response
	err := r.prepare(w, path)
	if err == nil {
		// The command of a write follows from the request alone, and the server that
		// leads decides it. What a handler reads before can be old: it only finds
		// reasons not to submit the command at all, and those must hold now.
		writes := r.op.method != http.MethodGet
		answer, err = r.carryOut(writes)
		if err != nil && writes && r.looked && !r.Submitted && r.Fresh != nil {
			answer, err = r.carryOut(false)
		}
	}
	var rehearsal *rest.Rehearsal
	if errors.As(err, &rehearsal) {
		answer, err = &response{status: http.StatusOK, body: rehearsal.Body()}, nil
	}
	if err != nil {
		r.writeFailure(w, err)
		return
	}
	r.write(w, answer)
}

// prepare finds a request's operation, and whether its sender may ask for it.
func (r *request) prepare(w http.ResponseWriter, path string) error {
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
		if err := r.authorize(); err != nil {
			return err
		}
	}
	err := r.Query.Fault()
	if err == nil {
		err = r.TakeOwn()
	}
	if err != nil {
		return rest.BadRequest("Invalid query string parameters: %v", err)
	}
	return nil
}

// carryOut calls the operation's handler, with a view that may be old, or else with
// one that holds everything that other servers have answered.
func (r *request) carryOut(old bool) (_ *response, err error) {
	if err := rest.Await(r.Request, r.Views, r.Fresh, old); err != nil {
		return nil, err
	}
	if err := r.Look(); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		if err := r.Enter(); err != nil {
			return nil, err
		}
	}
	defer r.Leave()
	return r.op.handle(r)
}

// authorize asks the policy. A token of another scope than a project's may do
// nothing (enforce_scope), and the text for it differs.
func (r *request) authorize() error {
	rule, target := r.op.rule, policy.Target{}
	if r.op.method == http.MethodGet { // a write is about the projects in its body
		target["project_id"] = r.Query.Get("project_id")
	}
	switch {
	case !policy.InScope(rule, r.Who):
		return rest.Errorf(http.StatusForbidden, "%s", rule)
	case r.Policy.Allows(rule, r.Who, target):
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
	if op.reads && !acceptsJSON(strings.Join(r.Header.Values("Accept"), ",")) {
		return rest.Errorf(http.StatusNotAcceptable, "Only application/json is provided")
	}
	if op.body == "" {
		return nil
	}
	given := r.Header.Get("Content-Type")
	if mediaType, _, _ := strings.Cut(given, ";"); strings.EqualFold(strings.TrimSpace(mediaType), jsonType) {
		return nil
	}
	if given == "" {
		given = "None"
	}
	return rest.Errorf(http.StatusUnsupportedMediaType, "The media type %s is not supported, use application/json", given)
}

func (r *request) writeFailure(w http.ResponseWriter, err error) { writeError(w, r, r.Failed(w, err)) }

func (r *request) write(w http.ResponseWriter, answer *response) {
	header := w.Header()
	if answer.location != "" {
		header.Set("Location", rest.Base(r.Request)+r.Prefix+answer.location)
	}
	if answer.cache && r.version >= cacheHeadersSince {
		header.Set("Cache-Control", "no-cache")
		if !answer.noModified {
			header.Set("Last-Modified", lastModified(answer.modified))
		}
	}
	r.TellSequence(w)
	if answer.stream != nil {
		r.writeStream(w, answer)
		return
	}
	if answer.body == nil {
		w.WriteHeader(answer.status)
		return
	}
	if err := rest.WriteJSON(w, r.Request, r.Lease, answer.status, answer.body); err != nil {
		r.writeFailure(w, err)
	}
}

func lastModified(at int64) string {
	t := time.Now()
	if at != 0 {
		t = time.Unix(0, at)
	}
	return t.UTC().Format(http.TimeFormat)
}

func ok(body any, modified int64) *response {
	return &response{status: http.StatusOK, body: body, cache: true, modified: modified}
}

func noContent() *response { return &response{status: http.StatusNoContent} }

// noContentAfter answers a command that clients see nothing of, or says why it was refused.
func (r *request) noContentAfter(c commands.Command, refused func(*demand.Rejection) error) (*response, error) {
	_, err := r.Submit(c, refused)
	return noContent(), err
}

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
