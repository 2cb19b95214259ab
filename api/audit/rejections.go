package audit

import (
	"context"
	"errors"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
)

// Rejections is the answer of GET /audit/rejections, newest first.
type Rejections struct {
	Rejections []rejected.Entry `json:"rejections"`
}

const (
	defaultRejections = 50
	maxRejections     = 1000
)

var errNotKept = notFound("this server keeps no rejected commands")

// rejections is GET /audit/rejections.
func (q *Questions) rejections(ctx context.Context, p parameters) (any, error) {
	if q.Rejected == nil {
		return nil, errNotKept
	}
	f := rejected.Filter{Actor: p["actor"], Command: p["command"], Code: commands.Code(p["code"])}
	limit, err := p.number("limit", 1, maxRejections, defaultRejections)
	if err == nil && p["command_id"] != "" {
		f.CommandID, err = p.uuid("command_id")
	}
	if err == nil {
		f.Before, err = p.moment("before")
	}
	if err != nil {
		return nil, err
	}
	list, err := rejected.List(ctx, q.Rejected, f, int(limit))
	return &Rejections{list}, err
}

// Redecided is a rejected command, decided again.
type Redecided struct {
	rejected.Entry
	// Against is the address that its record would have: it was decided again
	// after everything before.
	Against ledger.Address `json:"against"`
	// Again is why it is rejected again; absent: it would be accepted.
	Again  *commands.Rejection `json:"again,omitempty"`
	Events []ledger.EventLine  `json:"events,omitempty"` // what would be recorded
	Same   bool                `json:"same"`             // decided as it was
}

// redecide is GET /audit/redecide?command_id=ID: against the State that it was
// decided against, or that of the moment at.
func (q *Questions) redecide(ctx context.Context, p parameters) (any, error) {
	if q.Rejected == nil {
		return nil, errNotKept
	}
	id, err := p.uuid("command_id")
	if err != nil {
		return nil, err
	}
	list, err := rejected.List(ctx, q.Rejected, rejected.Filter{CommandID: id}, 1)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound("no rejected command %s is kept", id)
	}
	answer := &Redecided{Entry: list[0], Against: list[0].Place}
	submission, err := list[0].Submission()
	if errors.Is(err, rejected.ErrNoCommand) {
		return nil, bad("%v", err)
	}
	if err != nil {
		return nil, err
	}
	if p["at"] != "" {
		view, err := q.view(p)
		if err != nil {
			return nil, err
		}
		answer.Against = ledger.Address{Sequence: view.Sequence() + 1}
	}
	release, err := q.replaying()
	if err != nil {
		return nil, err
	}
	defer release()
	state, err := commands.StateAt(ctx, q.Log, q.Snapshots, answer.Against)
	if err != nil {
		return nil, err
	}
	events, rejection := commands.Decide(submission, state)
	answer.Again, answer.Events = rejection, ledger.EventLines(events)
	answer.Same = rejection != nil && rejection.String() == answer.Rejection.String()
	return answer, nil
}
