// Package baremetal serves Ironic's Allocations API and as much of its Nodes API
// as its clients need (microversions 1.1 to 1.94). Nodes are what their operators
// declare: no hardware is contacted, and every verb takes effect at once.
package baremetal

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
)

// MaxBodyBytes is the size of the largest request body. A body with the largest
// number of candidate nodes takes less than 1 MiB.
const MaxBodyBytes = 4 << 20

// DefaultMaxLimit is the largest number of entries on a page (Ironic's
// max_limit).
const DefaultMaxLimit = 1000

// Handler serves the API below one path prefix, which is empty or "/baremetal".
type Handler struct {
	rest.Facade
	// PublicURL is the beginning of links, instead of the host that the client
	// named. It has no slash at its end.
	PublicURL string
	// Noauth permits everything to requests without a token, or with the token
	// that Ironic's clients send where there is no authentication.
	Noauth bool
	// MaxLimit is the largest number of entries on a page; 0: DefaultMaxLimit.
	MaxLimit int
}

type request struct {
	rest.Call
	h       *Handler
	base    string   // beginning of links
	path    []string // path below /v1, decoded
	ident   string   // of what the path names
	version version
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
	r := &request{Call: h.Receive(w, hr), h: h}
	if r.base = h.PublicURL; r.base == "" {
		r.base = rest.Base(hr) + h.Prefix
	}
	defer func() { r.Lease.End() }()
	answer, err := r.serve(w)
	r.Work.End() // an answer is written without a place, however slowly the client reads
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
	path, err := splitPath(strings.TrimPrefix(r.URL.EscapedPath(), r.Prefix))
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
		r.Who = policy.Identity{User: "admin", Project: "admin", Roles: []string{"admin"}, Believed: true}
	} else if r.Who, err = r.Auth.Authenticate(r.Request); err != nil {
		return err
	}
	r.Lease = r.Fair.Lease(r.Client())
	if err := r.Query.Fault(); err != nil {
		return rest.BadRequest("Invalid query string: %v", err)
	}
	if err := r.TakeOwn(); err != nil {
		return rest.BadRequest("%v", err)
	}
	if err := rest.Await(r.Request, r.Views, r.Fresh, false); err != nil {
		return err
	}
	if r.Method == http.MethodGet {
		if err := r.Enter(); err != nil {
			return err
		}
	}
	err = r.Look()
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
	first, known, err := r.Views.Command(id)
	if err == nil && known && first.Address.Sequence > 1 {
		r.View, err = r.Views.ViewAt(first.Address.Sequence - 1)
	}
	return err
}

func (r *request) allows(rule string, target policy.Target) bool {
	allowed := r.Policy.Allows(rule, r.Who, target)
	r.mayWrite = r.mayWrite || allowed && !readingRule.MatchString(rule)
	return allowed
}

var readingRule = regexp.MustCompile(`:(get|list|list_all)$`)

func forbidden(rule string) *rest.Failure {
	return rest.Errorf(http.StatusForbidden, "Access was denied to the following resource: %s", rule)
}

func (r *request) writeFailure(w http.ResponseWriter, err error) {
	writeError(w, r.Request, r.Failed(w, err))
}

func (r *request) write(w http.ResponseWriter, answer *response) {
	if answer.location != "" {
		w.Header().Set("Location", r.base+answer.location)
	}
	r.TellSequence(w)
	if answer.body == nil {
		w.WriteHeader(answer.status)
		return
	}
	if err := rest.WriteJSON(w, r.Request, r.Lease, answer.status, answer.body); err != nil {
		r.writeFailure(w, err)
	}
}

// carry submits a command. what names the thing that it is about. A rejection
// becomes an error, whose text the handler may provide; nil if it has none.
func (r *request) carry(
	what string, c commands.Command, words func(*demand.Rejection) *rest.Failure,
) (commands.Outcome, error) {
	outcome, err := r.Submit(c, func(rejection *demand.Rejection) error {
		if words != nil {
			if failure := words(rejection); failure != nil {
				return failure
			}
		}
		return rejected(what, rejection)
	})
	if err == nil && outcome.Repeated {
		r.View, err = r.Views.ViewAt(outcome.Address.Sequence)
	}
	return outcome, err
}

// accepted submits a command whose rejections need no texts of the handler's.
func (r *request) accepted(what string, c commands.Command, answer *response) (*response, error) {
	_, err := r.carry(what, c, nil)
	return answer, err
}

// created submits a command that makes something, and answers what it has written, without
// anything that happened to it since.
func (r *request) created(
	what string, c commands.Command, words func(*demand.Rejection) *rest.Failure, written func() (*response, error),
) (*response, error) {
	outcome, err := r.carry(what, c, words)
	if err != nil {
		return nil, err
	}
	if r.View, err = r.Views.ViewAt(outcome.Address.Sequence); err != nil {
		return nil, err
	}
	return written()
}

func aboutName(text string) func(*demand.Rejection) *rest.Failure {
	return func(rejection *demand.Rejection) *rest.Failure {
		if rejection.Facts.Field != "name" {
			return nil
		}
		return rest.BadRequest("%s '%s'", text, rejection.Facts.Name)
	}
}
