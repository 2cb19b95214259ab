package present

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Limits of one answer about rejected commands.
const (
	DefaultRejections = 50
	maxRejections     = 1000
)

// RejectedEntries lists the rejected commands that a query asks for, newest first.
func RejectedEntries(
	ctx context.Context, views *projector.Projector, store rejected.Store, q *wire.RejectionsQuery,
) ([]rejected.Entry, error) {
	limit, err := rowsAsked(q.Limit, DefaultRejections, maxRejections)
	if err != nil {
		return nil, err
	}
	f := rejected.Filter{
		CommandID: q.CommandID, Actor: q.Actor, Command: q.Command, Code: demand.Code(q.Code),
		Project: q.Project, Consumer: q.Consumer, Provider: q.Provider, OwnerOf: ownerAt(views),
	}
	for _, bound := range []struct {
		name, text string
		into       *time.Time
	}{{"since", q.Since, &f.Since}, {"until", q.Until, &f.Until}, {"before", q.Before, &f.Before}} {
		if bound.text == "" {
			continue
		}
		at, err := ledger.ParseTime(bound.text)
		if err != nil {
			return nil, bad("%s: %v", bound.name, err)
		}
		*bound.into = at
	}
	return rejected.List(ctx, store, f, limit)
}

// ownerAt finds the project of a consumer at the moment when a command was
// decided, given by its place in the log.
func ownerAt(views *projector.Projector) func(ledger.UUID, ledger.Address) (string, error) {
	return func(consumer ledger.UUID, place ledger.Address) (string, error) {
		if place.Sequence < 2 {
			return "", nil // nothing existed then
		}
		view, err := viewBefore(views, place)
		if err != nil {
			return "", err
		}
		c, found, err := view.Consumer(consumer)
		if err != nil {
			return "", err
		}
		if found {
			return c.Owner.Project, nil
		}
		a, found, err := view.NodeAllocation(consumer)
		if err != nil || !found {
			return "", err
		}
		return a.Owner, nil
	}
}

// RejectedCommands converts entries to the form in which they travel.
func RejectedCommands(entries []rejected.Entry) ([]wire.RejectedCommand, error) {
	list := make([]wire.RejectedCommand, len(entries))
	for i := range entries {
		e := &entries[i]
		var body any
		dec := json.NewDecoder(strings.NewReader(string(e.Body)))
		dec.UseNumber()
		if err := dec.Decode(&body); err != nil {
			return nil, err
		}
		list[i] = wire.RejectedCommand{
			Time:  e.Time.Format(time.RFC3339Nano),
			Actor: e.Actor, Command: e.Command, CommandID: e.CommandID, RequestID: e.RequestID,
			Project: e.Project, Body: ledger.PlainNumbers(body), Place: e.Place, Rejection: e.Rejection,
		}
	}
	return list, nil
}
