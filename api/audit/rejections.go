package audit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
)

// Rejections is the answer of GET /audit/rejections, newest first.
type Rejections struct {
	Rejections []rejected.Entry `json:"rejections"`
	// Incomplete means that there may be older ones.
	Incomplete bool `json:"incomplete,omitempty"`
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
	list, err := present.RejectedEntries(ctx, q.Views, q.Rejected, asked)
	if err != nil {
		return nil, asBad(err)
	}
	return &Rejections{list, len(list) == cmp.Or(asked.Limit, present.DefaultRejections)}, nil
}

// asBad turns an error about the query into a fault of the client.
func asBad(err error) error {
	if errors.Is(err, present.ErrQuery) {
		return rest.BadRequest("%s", strings.TrimPrefix(err.Error(), present.ErrQuery.Error()+": "))
	}
	return err
}

// holders is GET /audit/holders?provider=UUID: the consumers that held something
// of the provider at the moment at, with their owners; with tree=true also of what
// is nested in it.
func (q entities) holders(ctx context.Context, p parameters) (any, error) {
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
	if err == nil {
		asked.Tree, err = p.flag("tree")
	}
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	found, err := present.Holders(ctx, q.Views, view, asked)
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
