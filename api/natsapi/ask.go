package natsapi

import (
	"context"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/fair"
)

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
