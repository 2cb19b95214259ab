package audit

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
)

// Rejections is the answer of GET /audit/rejections, newest first.
type Rejections struct {
	Rejections []rejected.Entry `json:"rejections"`
}

var errNotKept = rest.NotFound("this server keeps no rejected commands")

// rejections is GET /audit/rejections.
func (q *Questions) rejections(ctx context.Context, p parameters) (any, error) {
	if q.Rejected == nil {
		return nil, errNotKept
	}
	asked := &wire.RejectionsQuery{
		Actor: p["actor"], Command: p["command"], Code: p["code"], Project: p["project"],
		Since: p["since"], Until: p["until"], Before: p["before"],
	}
	for name, into := range map[string]*ledger.UUID{
		"command_id": &asked.CommandID, "consumer": &asked.Consumer, "provider": &asked.Provider,
	} {
		if p[name] == "" {
			continue
		}
		var err error
		if *into, err = p.uuid(name); err != nil {
			return nil, err
		}
	}
	if p["limit"] != "" {
		limit, err := p.number("limit", 1, math.MaxInt32, 1)
		if err != nil {
			return nil, err
		}
		asked.Limit = int(limit)
	}
	list, err := answers.RejectedEntries(ctx, q.Views, q.Rejected, asked)
	if err != nil {
		return nil, asBad(err)
	}
	return &Rejections{list}, nil
}

// asBad turns an error about the query into a fault of the client.
func asBad(err error) error {
	if errors.Is(err, answers.ErrQuery) {
		return rest.BadRequest("%s", strings.TrimPrefix(err.Error(), answers.ErrQuery.Error()+": "))
	}
	return err
}

// holders is GET /audit/holders?provider=UUID: the consumers that held something
// of the provider at the moment at, with their owners.
func (q *Questions) holders(_ context.Context, p parameters) (any, error) {
	asked := &wire.HoldersQuery{}
	var err error
	if asked.Provider, err = p.uuid("provider"); err == nil && p["after"] != "" {
		asked.After, err = p.uuid("after")
	}
	if err == nil && p["limit"] != "" {
		var limit int64
		limit, err = p.number("limit", 1, math.MaxInt32, 1)
		asked.Limit = int(limit)
	}
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	found, err := answers.Holders(view, asked)
	if err != nil {
		return nil, asBad(err)
	}
	if found == nil {
		return nil, rest.NotFound("there is no provider %s", asked.Provider)
	}
	return &Holders{Sequence: view.Sequence(), Holders: *found}, nil
}

// Holders is the answer of GET /audit/holders.
type Holders struct {
	Sequence uint64 `json:"sequence"` // sequence of the commit that the answer holds for
	wire.Holders
}

// Redecided is a rejected command, decided again.
type Redecided struct {
	rejected.Entry
	// Against is the address that its record would have: it was decided again
	// after everything before that address.
	Against ledger.Address `json:"against"`
	// Again is the new rejection; absent: the command would be accepted.
	Again  *commands.Rejection `json:"again,omitempty"`
	Events []ledger.EventLine  `json:"events,omitempty"` // the events that would be recorded
	Same   bool                `json:"same"`             // the decision is the same
}

// redecide is GET /audit/redecide?command_id=ID. It decides the command again,
// against the State of its rejection or that of the moment at.
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
		return nil, rest.NotFound("no rejected command %s is kept", id)
	}
	answer := &Redecided{Entry: list[0], Against: list[0].Place}
	submission, err := list[0].Submission()
	if errors.Is(err, rejected.ErrNoCommand) {
		return nil, rest.BadRequest("%v", err)
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
	state, err := writer.StateAt(ctx, q.Log, q.Snapshots, answer.Against)
	if err != nil {
		return nil, err
	}
	events, rejection := commands.Decide(submission, state)
	answer.Again, answer.Events = rejection, ledger.EventLines(events)
	answer.Same = rejection != nil && rejection.String() == answer.Rejection.String()
	return answer, nil
}
