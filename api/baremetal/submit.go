package baremetal

import (
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
)

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

// aboutName returns the text for a rejection that is about a name.
func aboutName(text string) func(*demand.Rejection) *rest.Failure {
	return func(rejection *demand.Rejection) *rest.Failure {
		if rejection.Facts.Field != "name" {
			return nil
		}
		return rest.BadRequest("%s '%s'", text, rejection.Facts.Name)
	}
}
