package natsapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

const minSequenceWait = 5 * time.Second

func allocations(v projector.View, q *wire.AllocationsQuery) (any, error) {
	held, err := present.Allocations(v, q.Consumer)
	if err == nil && held == nil {
		err = notFound("consumer %s holds nothing", q.Consumer)
	}
	return held, err
}

func usages(v projector.View, q *wire.UsagesQuery) (any, error) {
	if q.Project == "" {
		return nil, bad("project is required")
	}
	return present.Usages(v, q.Project, q.User)
}

func (s *Queries) provider(ctx context.Context, v projector.View, q *wire.ProviderQuery) (any, error) {
	return one(
		v, "provider", "provider", q.Provider, q.Name, v.ProviderNamed,
		func(p *ledger.Provider) ledger.UUID { return p.UUID },
		func(v projector.View, id ledger.UUID) (*wire.Provider, error) {
			return present.Provider(v, id, func(root ledger.UUID) (ledger.Forest, error) {
				world, err := s.world(ctx, v, q.At != "")
				if err != nil {
					return nil, err
				}
				return world.Forest(root), nil
			})
		},
	)
}

func node(v projector.View, q *wire.NodeQuery) (any, error) {
	return one(
		v, "node", "node", q.Node, q.Name, v.NodeNamed, func(n *ledger.Node) ledger.UUID { return n.UUID }, present.Node,
	)
}

func nodeAllocation(v projector.View, q *wire.NodeAllocationQuery) (any, error) {
	return one(
		v, "allocation", "node allocation", q.Allocation, q.Name, v.NodeAllocationNamed,
		func(a *ledger.NodeAllocation) ledger.UUID { return a.UUID }, present.NodeAllocation,
	)
}

func chassis(v projector.View, q *wire.ChassisQuery) (any, error) {
	unnamed := func(string) (*ledger.Chassis, bool, error) { return nil, false, nil }
	return one(
		v, "chassis", "chassis", q.Chassis, "", unnamed, func(c *ledger.Chassis) ledger.UUID { return c.UUID },
		present.Chassis,
	)
}

// one answers a query for one entity, by the uuid in a field of the query, or by
// name.
func one[T, A any](v projector.View, field, what string, id ledger.UUID, name string,
	named func(string) (*T, bool, error), idOf func(*T) ledger.UUID, answer func(projector.View, ledger.UUID) (*A, error),
) (any, error) {
	if id.IsNil() == (name == "") {
		return nil, bad("one of %s and name is required", field)
	}
	if name != "" {
		thing, found, err := named(name)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, notFound("there is no such %s", what)
		}
		id = idOf(thing)
	}
	a, err := answer(v, id)
	if err == nil && a == nil {
		err = notFound("there is no such %s", what)
	}
	return a, err
}

// Bounds of the answer to a CommitsQuery.
const (
	maxCommits      = 1000
	maxCommitsBytes = 1 << 20
)

// commits reads the log as it is. The client must check that what it makes of the
// commits has the digest in the answer.
func (s *Queries) commits(ctx context.Context, v projector.View, q *wire.CommitsQuery) (any, error) {
	if q.From == 0 || q.Limit < 0 || q.Limit > maxCommits {
		return nil, bad("from is 1 or more, and limit at most %d", maxCommits)
	}
	limit := uint64(q.Limit)
	if limit == 0 {
		limit = maxCommits
	}
	answer := &wire.Commits{Commits: []wire.Commit{}}
	if q.From > v.Sequence() {
		return answer, nil
	}
	size := 0
	err := s.Log.Read(ctx, q.From, min(v.Sequence(), q.From+limit-1), func(e ledger.Entry) error {
		if size += len(e.Data); size > maxCommitsBytes && len(answer.Commits) > 0 {
			return errEnough
		}
		answer.Commits = append(
			answer.Commits,
			wire.Commit{Sequence: e.Sequence, Digest: ledger.DigestOf(e.Data).String(), Data: append([]byte(nil), e.Data...)},
		)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return answer, err
}

var errEnough = errors.New("natsapi: the answer is full")

func (s *Queries) checkpoint(ctx context.Context, v projector.View) (any, error) {
	signed, err := s.Notary.Checkpoint(ctx, v)
	return signedAnswer(signed, err)
}

// newestCheckpoint has the cosignatures of witnesses if there are some.
func (s *Queries) newestCheckpoint(ctx context.Context) (answer wire.Answer[any], err error) {
	signed, view, err := s.Notary.Newest(ctx, s.Views)
	answer.Sequence = view.Sequence()
	if errors.Is(err, witness.ErrQuorum) {
		return answer, &wire.Error{Code: wire.ErrorUnavailable, Message: err.Error()}
	}
	answer.Result, err = signedAnswer(signed, err)
	return answer, err
}

func signedAnswer(signed []byte, err error) (any, error) {
	if errors.Is(err, present.ErrNoKey) {
		return nil, notFound("%v", err)
	}
	return &wire.Checkpoint{Signed: string(signed)}, err
}

func (s *Queries) holders(ctx context.Context, v projector.View, q *wire.HoldersQuery) (any, error) {
	found, err := present.Holders(ctx, s.Views, v, q)
	if err == nil && found == nil {
		err = notFound("there is no provider %s", q.Provider)
	}
	return found, err
}

// consumption answers with the sequence of the interval's end.
func (s *Queries) consumption(ctx context.Context, q *wire.ConsumptionQuery) (wire.Answer[any], error) {
	found, err := present.Consumption(ctx, s.Views, q, s.Now())
	if errors.Is(err, present.ErrQuery) {
		err = bad("%v", err)
	}
	if err != nil {
		return wire.Answer[any]{}, err
	}
	return wire.Answer[any]{Sequence: found.Sequence, Result: found}, nil
}

func (s *Queries) rejections(ctx context.Context, q *wire.RejectionsQuery) (any, error) {
	if s.Rejected == nil {
		return nil, notFound("this server keeps no rejected commands")
	}
	if q.At != "" {
		return nil, bad("at: rejected commands are narrowed down with since and until")
	}
	found, err := present.RejectedEntries(ctx, s.Views, s.Rejected, q)
	if err != nil {
		return nil, err
	}
	return present.RejectedCommands(found)
}

func (s *Queries) capacity(ctx context.Context, v projector.View, q *wire.CapacityQuery) (any, error) {
	world, err := s.world(ctx, v, q.At != "")
	if err != nil {
		return nil, err
	}
	return present.CapacityAsked(ctx, v, world, q, s.MaxSteps)
}

func (s *Queries) candidates(ctx context.Context, v projector.View, q *wire.CandidatesQuery) (any, error) {
	world, err := s.world(ctx, v, q.At != "")
	if err != nil {
		return nil, err
	}
	return present.Candidates(ctx, v, world, q, s.MaxSteps)
}

// Queries answers queries from the read models.
type Queries struct {
	Views  *projector.Projector
	Log    ledger.Log
	Notary *present.Notary
	// Rejected keeps rejected commands; nil: they are not kept.
	Rejected rejected.Store
	// MaxSteps is the largest number of steps of a search for candidates; 0: no
	// bound.
	MaxSteps int
	Now      func() time.Time
}

// Ask answers one query.
func (s *Queries) Ask(ctx context.Context, q wire.Query) (wire.Answer[any], error) {
	view, err := s.view(q.Moment())
	if err != nil {
		return wire.Answer[any]{}, err
	}
	var result any
	switch q := q.(type) {
	case *wire.AllocationsQuery:
		result, err = allocations(view, q)
	case *wire.UsagesQuery:
		result, err = usages(view, q)
	case *wire.ProviderQuery:
		result, err = s.provider(ctx, view, q)
	case *wire.CommitsQuery:
		result, err = s.commits(ctx, view, q)
	case *wire.CheckpointQuery:
		result, err = s.checkpoint(ctx, view)
	case *wire.NodeQuery:
		result, err = node(view, q)
	case *wire.NodeAllocationQuery:
		result, err = nodeAllocation(view, q)
	case *wire.ChassisQuery:
		result, err = chassis(view, q)
	case *wire.HistoryQuery:
		result, err = present.History(ctx, present.Telling{Views: s.Views}, s.Log, view, q)
	case *wire.HoldersQuery:
		result, err = s.holders(ctx, view, q)
	case *wire.ConsumptionQuery:
		return s.consumption(ctx, q)
	case *wire.RejectionsQuery:
		result, err = s.rejections(ctx, q)
	case *wire.CandidatesQuery:
		result, err = s.candidates(ctx, view, q)
	case *wire.CapacityQuery:
		result, err = s.capacity(ctx, view, q)
	default:
		err = fmt.Errorf("natsapi: no answer to %s", wire.NameOf(q))
	}
	if errors.Is(err, present.ErrQuery) {
		result, err = nil, bad("%v", err)
	}
	return wire.Answer[any]{Sequence: view.Sequence(), Result: result}, err
}

func notReached(why error) *wire.Error {
	return &wire.Error{
		Code: wire.ErrorUnavailable, Retry: true, RetryAfterMS: int(retryAfter.Milliseconds()),
		Message: fmt.Sprintf("min_sequence: %v", why),
	}
}

func (s *Queries) view(w wire.When) (projector.View, error) {
	if err := present.Reached(s.Views, nil, w.MinSequence); err != nil {
		return projector.View{}, notReached(err)
	}
	view, err := present.ViewAt(s.Views, string(w.At), s.Now())
	if errors.Is(err, present.ErrMoment) {
		return view, bad("at: %v", err)
	}
	return view, err
}

func (s *Queries) world(ctx context.Context, v projector.View, past bool) (*candidates.World, error) {
	if past {
		return v.World(ctx)
	}
	world, _ := s.Views.World()
	return world, nil
}

func bad(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.ErrorBadRequest, Message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.ErrorNotFound, Message: fmt.Sprintf(format, args...)}
}
