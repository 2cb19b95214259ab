package audit

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/rejected"
)

// Rejections is the answer of GET /audit/rejections, newest first.
type Rejections struct {
	Rejections []ToldRejection `json:"rejections"`
	// Incomplete means that there may be older ones.
	Incomplete bool `json:"incomplete,omitempty"`
}

// ToldRejection is a command that was rejected, in words.
type ToldRejection struct {
	rejected.Entry
	Text  string          `json:"text"`
	Words sentences.Words `json:"words"`
}

var errNotKept = rest.NotFound("this server keeps no rejected commands")

func (q *Questions) rejections(ctx context.Context, p *parameters) (any, error) {
	if q.Rejected == nil {
		return nil, errNotKept
	}
	asked := &wire.RejectionsQuery{}
	if err := p.into(asked); err != nil {
		return nil, err
	}
	telling := q.telling(p)
	if p.fault != nil {
		return nil, p.fault
	}
	list, err := present.RejectedEntries(ctx, q.Views, q.Rejected, asked)
	if err != nil {
		return nil, asBad(err)
	}
	answer := &Rejections{[]ToldRejection{}, len(list) == cmp.Or(asked.Limit, present.DefaultRejections)}
	for i := range list {
		words, err := telling.Rejected(&list[i])
		if err != nil {
			return nil, err
		}
		answer.Rejections = append(answer.Rejections, ToldRejection{list[i], words.String(), words})
	}
	return answer, nil
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
func (q entities) holders(ctx context.Context, p *parameters) (any, error) {
	asked := &wire.HoldersQuery{}
	if err := p.into(asked); err != nil {
		return nil, err
	}
	if asked.Provider.IsNil() {
		return nil, rest.BadRequest("provider: is needed")
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
