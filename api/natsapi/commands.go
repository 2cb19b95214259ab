package natsapi

import (
	"context"
	"fmt"
	"math"
	"slices"
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
		Actor: s.cfg.Actor, RequestID: r.Headers().Get(wire.HeaderRequestID), Client: r.client, Trace: r.trace,
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
	s.cfg.Commands.Start(submission, func(outcome commands.Outcome, err error) {
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

func commandID(req micro.Request) (ledger.UUID, *wire.Error) {
	id, err := ledger.ParseUUID(req.Headers().Get(wire.HeaderCommandID))
	if err != nil || id.IsNil() {
		return id, bad("the header %s must hold a uuid", wire.HeaderCommandID)
	}
	return id, nil
}

// batchWindow is how many commands of one batch are under way at a time.
const batchWindow = 256

func (s *Service) batch() micro.Handler {
	return s.inTurn(Name{KindBatch, "batch"}, math.MaxInt, never, func(r *request) {
		reply := s.carryOutBatch(r)
		s.finish(r, reply, reply.Error)
	})
}

func (s *Service) carryOutBatch(r *request) wire.BatchReply {
	base, failure := s.submission(r)
	if failure != nil {
		return wire.BatchReply{Error: failure}
	}
	var batch wire.Batch
	if failure := s.decode(r, "batch", &batch); failure != nil {
		return wire.BatchReply{Error: failure}
	}
	if n := len(batch.Commands); n == 0 || n > commands.MaxBatch {
		return wire.BatchReply{Error: bad("a batch has 1 to %d commands, not %d", commands.MaxBatch, n)}
	}
	ctx, cancel, late := s.context(r)
	defer cancel()
	if late != nil {
		return wire.BatchReply{Error: late}
	}
	if batch.Atomic {
		return s.atomically(ctx, r, base, batch.Commands)
	}
	return wire.BatchReply{Replies: s.independently(ctx, r, base, batch.Commands)}
}

func (s *Service) atomically(
	ctx context.Context, r *request, base commands.Submission, list []wire.BatchCommand,
) wire.BatchReply {
	whole := &commands.Batch{}
	for i, one := range list {
		c, failure := decodeOne(r, one)
		if failure == nil && !one.ID.IsNil() {
			failure = bad("id: the commands of an atomic batch have one together, in the header %s", wire.HeaderCommandID)
		}
		if failure != nil {
			failure.Message = fmt.Sprintf("command %d: %s", i, failure.Message)
			return wire.BatchReply{Error: failure}
		}
		whole.Commands = append(whole.Commands, c)
	}
	base.Command = whole
	if !base.DryRun {
		var failure *wire.Error
		if base.ID, failure = commandID(r); failure != nil {
			return wire.BatchReply{Error: failure}
		}
	}
	outcome, err := s.cfg.Commands.Submit(ctx, base)
	reply := s.replyTo(r, base.DryRun, outcome, err)
	return wire.BatchReply{Result: &reply, Error: reply.Error}
}

// independently submits each command on its own, and answers them in order.
// Commands without an answer in time are reported as such.
func (s *Service) independently(
	ctx context.Context, r *request, base commands.Submission, list []wire.BatchCommand,
) []wire.Reply {
	replies := slices.Repeat([]wire.Reply{s.replyTo(r, false, commands.Outcome{}, commands.ErrNoAnswer)}, len(list))
	type settled struct {
		command int
		reply   wire.Reply
	}
	outcomes := make(chan settled, len(list)) // buffered so that the writer never waits
	underWay := 0
	settle := func(most int) {
		for underWay > most && ctx.Err() == nil {
			select {
			case o := <-outcomes:
				replies[o.command] = o.reply
				underWay--
			case <-ctx.Done():
			}
		}
	}
	for i := range list {
		settle(batchWindow - 1)
		if ctx.Err() != nil {
			break
		}
		c, failure := decodeOne(r, list[i])
		if failure == nil && !base.DryRun && list[i].ID.IsNil() {
			failure = bad("id: a uuid is required")
		}
		if failure != nil {
			replies[i] = wire.Reply{Error: failure}
			continue
		}
		one := base
		one.ID, one.Command = list[i].ID, c
		underWay++
		s.cfg.Commands.Start(one, func(outcome commands.Outcome, err error) {
			outcomes <- settled{i, s.replyTo(r, base.DryRun, outcome, err)}
		})
	}
	settle(0)
	return replies
}

func decodeOne(r *request, one wire.BatchCommand) (commands.Command, *wire.Error) {
	empty, known := commands.Registry[one.Command]
	if !known {
		return nil, bad("there is no command %q", one.Command)
	}
	if !r.user.maySubmit(one.Command) {
		return nil, forbidden("%s may not submit %s", r.user.Name, one.Command)
	}
	c := empty()
	if err := one.Body.DecodeWhole(r.encoding, c); err != nil {
		return nil, bad("%s: %v", one.Command, err)
	}
	return c, nil
}
