package natsapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

const minSequenceWait = 5 * time.Second

func allocations(v projector.View, q *wire.AllocationsQuery) (any, error) {
	held, err := present.Allocations(v, q.Consumer)
	return found(held, err, "consumer %s holds nothing", q.Consumer)
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
		thing, exists, err := named(name)
		if err != nil {
			return nil, err
		}
		if !exists {
			return nil, notFound("there is no such %s", what)
		}
		id = idOf(thing)
	}
	a, err := answer(v, id)
	return found(a, err, "there is no such %s", what)
}

// found says that there is no answer instead of a nil one.
func found[A any](answer *A, err error, format string, args ...any) (*A, error) {
	if err == nil && answer == nil {
		err = notFound(format, args...)
	}
	return answer, err
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
	holders, err := present.Holders(ctx, s.Views, v, q)
	return found(holders, err, "there is no provider %s", q.Provider)
}

// consumption answers with the sequence of the interval's end.
func (s *Queries) consumption(ctx context.Context, q *wire.ConsumptionQuery) (wire.Answer[any], error) {
	consumed, err := present.Consumption(ctx, s.Views, q, s.Now())
	if errors.Is(err, present.ErrQuery) {
		err = bad("%v", err)
	}
	if err != nil {
		return wire.Answer[any]{}, err
	}
	return wire.Answer[any]{Sequence: consumed.Sequence, Result: consumed}, nil
}

func (s *Queries) rejections(ctx context.Context, q *wire.RejectionsQuery) (any, error) {
	if s.Rejected == nil {
		return nil, notFound("this server keeps no rejected commands")
	}
	if q.At != "" {
		return nil, bad("at: rejected commands are narrowed down with since and until")
	}
	list, err := present.RejectedEntries(ctx, s.Views, s.Rejected, q)
	if err != nil {
		return nil, err
	}
	return present.RejectedCommands(list)
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
	return &wire.Error{Code: wire.ErrorBadRequest, Message: clipped(fmt.Sprintf(format, args...))}
}

func notFound(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.ErrorNotFound, Message: clipped(fmt.Sprintf(format, args...))}
}

func (s *Service) query(empty func() wire.Query) micro.Handler {
	return s.inTurn(Name{KindQuery, wire.NameOf(empty())}, maxQueryBytes, never, func(r *request) {
		q := empty()
		failure := s.readQuery(r, q)
		least := q.Moment().MinSequence
		switch {
		case failure != nil:
			s.finishQuery(r, wire.Answer[any]{}, failure)
		case least > 0 && present.Reached(s.cfg.Queries.Views, s.cfg.Fresh, least) != nil:
			s.aside(r, q, func(ctx context.Context) error { return s.await(ctx, least) })
		case s.cfg.Fresh != nil && !q.Moment().Stale && least == 0:
			s.aside(r, q, s.cfg.Fresh.Fresh) // usually that takes one question to the leader, and none on the leader itself
		default:
			s.finishQuery(s.ask(r, q))
		}
	})
}

func (s *Service) finishQuery(r *request, answer wire.Answer[any], failure *wire.Error) {
	if failure != nil {
		answer = wire.Answer[any]{Error: failure}
	}
	s.finish(r, answer, failure)
}

// aside has a query wait for something. It is not under way meanwhile. Then it waits for
// its turn again.
func (s *Service) aside(r *request, q wire.Query, wait func(context.Context) error) {
	limit, failure := s.timeLeft(r)
	leave, err := s.waits.Enter(r.client)
	if err != nil && failure == nil {
		failure = s.failure(r, err)
	}
	if failure != nil {
		s.finishQuery(r, wire.Answer[any]{}, failure)
		return
	}
	s.idle.Go(func() {
		ctx, cancel := context.WithTimeout(s.stopping, limit)
		defer cancel()
		err := wait(ctx)
		leave()
		if err == nil {
			err = s.desk.add(r.client, false, func() { s.finishQuery(s.ask(r, q)) })
		}
		if err != nil {
			s.refuse(r, s.failure(r, err))
			r.lease.End()
		}
	})
	s.desk.done(r.client)
}

func (s *Service) await(ctx context.Context, least uint64) error {
	ctx, cancel := context.WithTimeout(ctx, minSequenceWait)
	defer cancel()
	if err := present.AwaitReached(ctx, s.cfg.Queries.Views, s.cfg.Fresh, least); err != nil {
		return notReached(err)
	}
	return nil
}

func (s *Service) readQuery(r *request, q wire.Query) *wire.Error {
	if failure := s.decode(r, wire.NameOf(q), q); failure != nil {
		return failure
	}
	return r.user.mayAsk(q)
}

func (s *Service) ask(r *request, q wire.Query) (_ *request, answer wire.Answer[any], failure *wire.Error) {
	ctx, cancel, late := s.context(r)
	defer cancel()
	if late != nil {
		return r, answer, late
	}
	if checkpoint, is := q.(*wire.CheckpointQuery); is && checkpoint.At == "" {
		answer, err := s.cfg.Queries.newestCheckpoint(ctx) // it may wait for witnesses, and takes no place
		if err != nil {
			return r, answer, s.failure(r, err)
		}
		return r, answer, r.user.maySee(q, answer.Result)
	}
	work, err := s.place(ctx, r, q)
	if err == nil {
		answer, err = s.cfg.Queries.Ask(work.Within(ctx), q)
		work.End()
	}
	if err != nil {
		return r, answer, s.failure(r, err)
	}
	return r, answer, r.user.maySee(q, answer.Result)
}

// place waits for a place for a query: of a kind of its own if it reads much or the past.
// What locks guard, such as indexes of the past, is only asked for with one.
func (s *Service) place(ctx context.Context, r *request, q wire.Query) (*fair.Work, error) {
	switch q.(type) {
	case *wire.CommitsQuery, *wire.ConsumptionQuery:
		return s.cfg.Fair.Long(ctx, r.client)
	}
	if q.Moment().At != "" {
		return s.cfg.Fair.Long(ctx, r.client)
	}
	return s.cfg.Fair.Short(ctx, r.client)
}
