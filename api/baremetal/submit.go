package baremetal

import (
	"context"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
)

// submit carries a command out.
func (r *request) submit(c commands.Command) (commands.Outcome, *demand.Rejection, error) {
	s := commands.Submission{
		Actor: r.who.User, RequestID: r.id, Command: c, DryRun: r.dryRun,
		Client: r.who.Client(r.RemoteAddr), Bulk: r.h.Policy.LoadsInBulk(r.who),
	}
	if err := rest.Identify(r.Request, &s); err != nil {
		return commands.Outcome{}, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), rest.SubmitTimeout)
	defer cancel()
	outcome, err := r.h.Commands.Submit(ctx, s)
	if err = rest.Rehearsed(&s, outcome, err); err != nil {
		return outcome, nil, err
	}
	if r.view = r.h.Views.View(); outcome.Repeated {
		r.view, err = r.h.Views.ViewAt(outcome.Address.Sequence)
	}
	return outcome, outcome.Rejection.Redacted(r.h.Policy.SeesLimits(r.who)), err
}

// accepted submits a command whose rejections need no texts of the handler's.
func (r *request) accepted(what string, c commands.Command, answer *response) (*response, error) {
	if _, err := r.carry(what, c, nil); err != nil {
		return nil, err
	}
	return answer, nil
}

// carry submits a command. what names the thing that it is about. A rejection
// becomes an error, whose text the handler may provide; nil if it has none.
func (r *request) carry(
	what string, c commands.Command, words func(*demand.Rejection) *rest.Failure,
) (commands.Outcome, error) {
	outcome, rejection, err := r.submit(c)
	if err != nil || rejection == nil {
		return outcome, err
	}
	if words != nil {
		if failure := words(rejection); failure != nil {
			return outcome, failure
		}
	}
	return outcome, rejected(what, rejection)
}

// aboutName returns the text for a rejection that is about a name.
func aboutName(text string) func(*demand.Rejection) *rest.Failure {
	return func(rejection *demand.Rejection) *rest.Failure {
		if rejection.Facts.Field != "name" {
			return nil
		}
		return rest.BadRequest("%s '%s'", text, rejection.Facts.Name)
	}
}
