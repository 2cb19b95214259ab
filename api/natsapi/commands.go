package natsapi

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

func (s *Service) command(empty func() commands.Command) micro.Handler {
	name := Name{KindCommand, commands.NameOf(empty())}
	return s.inTurn(name, math.MaxInt, smallBytes, func(r *request) { s.carryOut(r, empty()) })
}

// submission is what the headers of a command say: its sender, and whether it is
// a dry run.
func (s *Service) submission(r *request) (commands.Submission, *wire.Error) {
	base := commands.Submission{
		Actor: s.actor, RequestID: r.Headers().Get(wire.HeaderRequestID), Client: r.client, Trace: r.trace,
	}
	if r.user != nil {
		base.Actor, base.Project, base.Bulk = "nats:"+r.user.Name, r.user.Project, r.user.isBulk()
	} else {
		base.Bulk = true // without users every client is an operator
	}
	var err error
	if base.DryRun, err = dryRunOf(r); err != nil {
		return base, bad("%v", err)
	}
	return base, nil
}

func dryRunOf(req micro.Request) (bool, error) {
	value := req.Headers().Get(wire.HeaderDryRun)
	if value == "" {
		return false, nil
	}
	dryRun, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("the header %s must be true or false, not %q", wire.HeaderDryRun, value)
	}
	return dryRun, nil
}

// carryOut decodes a command and submits it. The writer, or the clock, triggers
// its answer.
func (s *Service) carryOut(r *request, c commands.Command) {
	submission, limit, failure := s.read(r, c)
	if failure != nil {
		s.finish(r, &wire.Reply{Error: failure}, failure)
		return
	}
	var told atomic.Bool
	tell := func(outcome commands.Outcome, err error) {
		if told.CompareAndSwap(false, true) {
			s.replies.add(answer{request: r, dryRun: submission.DryRun, outcome: outcome, err: err})
		}
	}
	late := time.AfterFunc(limit, func() { tell(commands.Outcome{}, commands.ErrNoAnswer) })
	s.submit.Start(submission, func(outcome commands.Outcome, err error) {
		late.Stop()
		tell(outcome, err)
	})
}

// read makes a submission of a request for one command, and returns the time
// within which it must be answered.
func (s *Service) read(r *request, c commands.Command) (commands.Submission, time.Duration, *wire.Error) {
	if !r.user.maySubmit(commands.NameOf(c)) {
		return commands.Submission{}, 0, forbidden("%s may not submit %s", r.user.Name, commands.NameOf(c))
	}
	submission, failure := s.submission(r)
	if failure == nil && !submission.DryRun {
		submission.ID, failure = commandID(r)
	}
	if failure != nil {
		return submission, 0, failure
	}
	if failure := s.decode(r, commands.NameOf(c), c); failure != nil {
		return submission, 0, failure
	}
	submission.Command = c
	limit, failure := s.timeLeft(r)
	return submission, limit, failure
}

// commandID reads the id that a command, or an atomic batch, must have.
func commandID(req micro.Request) (ledger.UUID, *wire.Error) {
	id, err := ledger.ParseUUID(req.Headers().Get(wire.HeaderCommandID))
	if err != nil || id.IsNil() {
		return id, bad("the header %s must hold a uuid", wire.HeaderCommandID)
	}
	return id, nil
}
