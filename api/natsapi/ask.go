package natsapi

import (
	"context"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/commands/wire"
)

// query takes queries: cheap ones together with all other requests, slow ones in
// a queue of their own, where each client has its share.
func (s *Service) query(empty func() wire.Query) micro.Handler {
	queue := s.queue
	switch empty().(type) {
	case *wire.CandidatesQuery, *wire.CommitsQuery:
		queue = s.costly
	}
	return s.inTurn(Name{KindQuery, empty().QueryName()}, queue, maxQueryBytes, never, func(r *request) {
		q := empty()
		failure := s.readQuery(r, q)
		switch {
		case failure != nil:
			s.finishQuery(r, wire.Answer[any]{}, failure)
		case q.Moment().MinSequence > s.queries.Views.View().Sequence():
			s.park(r, q)
		case s.fresh != nil && !q.Moment().Stale && q.Moment().MinSequence == 0:
			s.freshen(r, q)
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

// park puts a query aside until its min_sequence can be read. Then the query
// waits for its turn again.
func (s *Service) park(r *request, q wire.Query) {
	limit, failure := s.timeLeft(r)
	if failure != nil {
		s.finishQuery(r, wire.Answer[any]{}, failure)
		return
	}
	least := q.Moment().MinSequence
	one := &parked{client: r.client, min: least, until: s.now().Add(min(limit, minSequenceWait))}
	one.resume = func(late bool) {
		if late {
			s.refuse(r, notReached(least, s.queries.Views.View().Sequence()))
			return
		}
		again := job{do: func() { s.finishQuery(s.ask(r, q)) }, size: r.weight, weight: r.weight}
		if !r.queue.push(r.client, again) {
			s.refuse(r, tooMany())
		}
	}
	r.done()
	if !s.parking.add(one) {
		s.refuse(r, tooMany())
	}
}

// freshen puts a query aside until everything that other servers have answered
// can be read here. Then the query waits for its turn again. Usually that takes
// one question to the leader, and none on the leader itself.
func (s *Service) freshen(r *request, q wire.Query) {
	limit, failure := s.timeLeft(r)
	if failure != nil {
		s.finishQuery(r, wire.Answer[any]{}, failure)
		return
	}
	r.done()
	if !s.parking.hold(r.client) {
		s.refuse(r, tooMany())
		return
	}
	s.idle.Go(func() {
		ctx, cancel := context.WithTimeout(s.stopping, limit)
		defer cancel()
		err := s.fresh.Fresh(ctx)
		s.parking.letGo(r.client)
		again := job{do: func() { s.finishQuery(s.ask(r, q)) }, size: r.weight, weight: r.weight}
		switch {
		case err != nil:
			s.refuse(r, s.failure(r, err))
		case !r.queue.push(r.client, again):
			s.refuse(r, tooMany())
		}
	})
}

// readQuery decodes a query and checks that its sender may ask it.
func (s *Service) readQuery(r *request, q wire.Query) *wire.Error {
	if err := s.decode(r, q); err != nil {
		return bad("%s: %v", q.QueryName(), err)
	}
	return r.user.mayAsk(q)
}

// ask answers a query.
func (s *Service) ask(r *request, q wire.Query) (_ *request, answer wire.Answer[any], failure *wire.Error) {
	ctx, cancel, late := s.context(r)
	defer cancel()
	if late != nil {
		return r, answer, late
	}
	answer, err := s.queries.Ask(ctx, q)
	if err != nil {
		return r, answer, s.failure(r, err)
	}
	return r, answer, r.user.maySee(q, answer.Result)
}
