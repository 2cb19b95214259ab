package natsapi

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
)

// batchWindow is how many commands of one batch are under way at a time.
const batchWindow = 256

// batch takes several commands in one message.
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

// atomically submits the commands as one.
func (s *Service) atomically(
	ctx context.Context, r *request, base commands.Submission, list []wire.BatchCommand,
) wire.BatchReply {
	whole := &commands.Batch{}
	for i, one := range list {
		c, failure := decodeOne(r, one)
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
	outcome, err := s.submit.Submit(ctx, base)
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
		s.submit.Start(one, func(outcome commands.Outcome, err error) {
			outcomes <- settled{i, s.replyTo(r, base.DryRun, outcome, err)}
		})
	}
	settle(0)
	return replies
}

// decodeOne reads a command of a batch, and checks that its sender may submit it.
func decodeOne(r *request, one wire.BatchCommand) (commands.Command, *wire.Error) {
	empty, known := commands.Registry[one.Command]
	if !known {
		return nil, bad("there is no command %q", one.Command)
	}
	if !r.user.maySubmit(one.Command) {
		return nil, forbidden("%s may not submit %s", r.user.Name, one.Command)
	}
	c := empty()
	if err := one.Body.Decode(r.encoding, c); err != nil {
		return nil, bad("%s: %v", one.Command, err)
	}
	return c, nil
}
