package rest

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/projector"
)

// Facade is what an API needs to serve a ledger below one path prefix.
type Facade struct {
	Commands commands.Submitter
	Views    *projector.Projector
	// Fresh tells when Views hold everything that other servers have answered; nil: always.
	Fresh  commands.Freshness
	Logger *slog.Logger
	// Prefix is the path that the API is mounted at: empty, or such as "/placement".
	Prefix string
	// Auth finds out who sends a request, and Policy what the sender may do.
	Auth   auth.Authenticator
	Policy *policy.Rules
	// Fair shares out memory and places among clients; nil: each request has its own.
	Fair *fair.Pool
	// Now is the clock that tells whether a moment is in the future; nil: time.Now.
	Now func() time.Time
}

// Call is a request on its way through an API.
type Call struct {
	*http.Request
	*Facade
	ID     string // X-Openstack-Request-Id
	Query  *Query
	Who    policy.Identity
	Lease  *fair.Lease // of the body's memory
	Work   *fair.Work  // of a read, or of decoding a large body; nil: none
	At     string      // the moment that the client asks about; empty: now
	DryRun bool
	View   projector.View

	Submitted bool // a command
}

// Receive gives a request its id, which its answer gets, too.
func (f *Facade) Receive(w http.ResponseWriter, r *http.Request) Call {
	return Call{Request: r, Facade: f, ID: NewRequestID(w), Query: ParseQuery(r)}
}

// Client names the client whose share of bounded resources the request uses.
func (r *Call) Client() string { return r.Who.Client(r.RemoteAddr) }

// TakeOwn takes Allot's own parameters from the query: the moment that the request is about,
// and whether it is a dry run.
func (r *Call) TakeOwn() (err error) {
	if r.At, err = r.Query.TakeAt(r.Request); err == nil {
		r.DryRun, err = r.Query.TakeDryRun(r.Request)
	}
	return err
}

// Enter waits for a place for a read. What locks guard, such as indexes of the past, is
// only asked for with one.
func (r *Call) Enter() (err error) {
	take := r.Fair.Short
	if r.At != "" {
		take = r.Fair.Long
	}
	r.Work, err = take(r.Context(), r.Client())
	return err
}

// Leave gives up the place that a request has, if it has one.
func (r *Call) Leave() {
	r.Work.End()
	r.Work = nil
}

// Submit carries a command out. refused makes the error of a rejection, which is without what its
// client may not see; nil: it is none. The error of a dry run of an accepted command is a *Rehearsal.
func (r *Call) Submit(c commands.Command, refused func(*demand.Rejection) error) (commands.Outcome, error) {
	r.Submitted = true
	r.Leave()
	s := commands.Submission{
		Actor: r.Who.User, RequestID: r.ID, Command: c, DryRun: r.DryRun,
		Client: r.Client(), Bulk: r.Policy.LoadsInBulk(r.Who),
	}
	if err := identify(r.Request, &s); err != nil {
		return commands.Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	outcome, err := r.Commands.Submit(ctx, s)
	switch {
	case err != nil:
		return outcome, err
	case s.DryRun && outcome.Rejection == nil:
		return outcome, &Rehearsal{Events: outcome.Events}
	}
	r.View = r.Views.View()
	if outcome.Rejection = outcome.Rejection.Redacted(r.Policy.SeesLimits(r.Who)); outcome.Rejection != nil {
		err = refused(outcome.Rejection)
	}
	return outcome, err
}

// Failed returns the failure to answer for an error, after it has told up to which commit the
// request has read.
func (r *Call) Failed(w http.ResponseWriter, err error) *Failure {
	r.TellSequence(w)
	return FailureOf(err, r.Request, r.ID, r.Logger)
}

// TellSequence puts the commit up to which the answer holds into it.
func (r *Call) TellSequence(w http.ResponseWriter) {
	if r.View.Sequence() > 0 {
		TellSequence(w, r.View.Sequence())
	}
}
