package leading

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/members"
)

// retry is the pause between tries to find a leader that takes a command.
const retry = 20 * time.Millisecond

var _ commands.Starter = (*Replica)(nil)

// again reports whether a command may succeed with another leader, or later. It
// can safely be submitted again, because it keeps its id.
func again(err error) bool {
	return errors.Is(err, commands.ErrNotLeading) || errors.Is(err, commands.ErrStopped) ||
		errors.Is(err, commands.ErrLogUnavailable) || errors.Is(err, errNoLeader)
}

// errNoLeader means that no replica took a message to the leader.
var errNoLeader = fmt.Errorf("%w: no replica leads now", commands.ErrNotLeading)

// Submit implements commands.Submitter. The leader carries the command out, if
// need be the next leader.
func (r *Replica) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	if t := r.leading.Load(); t != nil {
		if outcome, err := t.writer.Submit(ctx, s); !again(err) {
			return outcome, err
		}
	}
	return r.carry(ctx, s)
}

// Start implements commands.Starter.
func (r *Replica) Start(s commands.Submission, done commands.Done) {
	carry := func() { done(r.carry(r.ctx, s)) }
	t := r.leading.Load()
	if t == nil {
		go carry()
		return
	}
	t.writer.Start(s, func(outcome commands.Outcome, err error) {
		if again(err) {
			go carry()
			return
		}
		done(outcome, err)
	})
}

// carry tries until a leader answers, or Limit has passed.
func (r *Replica) carry(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Limit)
	defer cancel()
	if s.ID.IsNil() && s.DryRun {
		s.ID = commands.NewID()
	}
	for {
		outcome, err := r.attempt(ctx, s)
		if !again(err) {
			return outcome, err
		}
		if !r.pause(ctx) {
			return commands.Outcome{}, fmt.Errorf("%w; no leader answered within %v", err, r.cfg.Limit)
		}
	}
}

// pause waits for another leader, or a moment.
func (r *Replica) pause(ctx context.Context) bool {
	select {
	case <-r.view.next():
	case <-time.After(retry):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// attempt lets the present leader carry a command out.
func (r *Replica) attempt(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	if t := r.leading.Load(); t != nil {
		return t.writer.Submit(ctx, s)
	}
	if r.cfg.Carrying == nil || s.Trace == nil {
		return r.passOn(ctx, s)
	}
	var end func(error)
	s.Trace, end = r.cfg.Carrying(s.Trace)
	outcome, err := r.passOn(ctx, s)
	end(err)
	return outcome, err
}

// passOn has the leader on another server carry a command out.
func (r *Replica) passOn(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	data, err := encodeSubmission(s)
	if err != nil {
		return commands.Outcome{}, err
	}
	if limit := int(r.cfg.Conn.MaxPayload()); len(data) > limit {
		return commands.Outcome{Rejection: tooLarge(len(data), limit)}, nil
	}
	msg, err := r.ask(ctx, submitSubject, data)
	if err != nil {
		return commands.Outcome{}, err
	}
	var answer carried
	if err := encoding.DecodeReply(msg.Data, encoding.TypeMsgpack, &answer); err != nil {
		return commands.Outcome{}, fmt.Errorf("cluster: the leader's answer cannot be read: %w", err)
	}
	outcome, err := answer.outcome()
	if err != nil {
		return outcome, err
	}
	return outcome, r.arrived(ctx, answer.Sequence)
}

func tooLarge(size, limit int) *demand.Rejection {
	return demand.Refuse(demand.CodeTooLarge, demand.Facts{SizeBytes: size, LimitBytes: limit},
		"the command takes %d bytes, and replicas pass on at most %d", size, limit)
}

// ask sends the leader a message and waits for its answer, until another replica
// leads, which must be asked anew.
func (r *Replica) ask(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	asking, cancel := context.WithTimeout(ctx, r.cfg.Lease) // a request may be lost
	defer cancel()
	_, changed := r.view.get()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-changed:
			cancel()
		case <-stop:
		}
	}()
	msg, err := r.cfg.Conn.RequestWithContext(asking, subject, data)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w: the leader has not answered: %w", commands.ErrNoAnswer, ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLeader, err)
	}
	return msg, nil
}

// stepDownRequest is the request that another replica lead.
type stepDownRequest struct {
	To string `json:"to"`
}

// StepDown asks the leader to let another replica lead: the named one or, if the
// name is empty, the one that lags least. It waits for a leader as long as a command
// does, but asks only one.
func (r *Replica) StepDown(ctx context.Context, to string) error {
	data, err := json.Marshal(stepDownRequest{To: to})
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Limit)
	defer cancel()
	for {
		err := r.Led()
		if err == nil {
			if err = r.requestStepDown(ctx, data); !errors.Is(err, nats.ErrNoResponders) {
				return err
			}
		}
		if !r.pause(ctx) {
			return err
		}
	}
}

func (r *Replica) requestStepDown(ctx context.Context, wish []byte) error {
	// That another replica leads now says nothing about the answer: it may be why.
	asking, cancel := context.WithTimeout(ctx, r.cfg.Lease) // a request may be lost
	defer cancel()
	msg, err := r.cfg.Conn.RequestWithContext(asking, stepDownSubject, wish)
	if err != nil {
		return fmt.Errorf("%w: the leader has not answered: %w", commands.ErrNoAnswer, err)
	}
	if len(msg.Data) > 0 {
		return errors.New(string(msg.Data))
	}
	return nil
}

// answerStepDown passes the request on to the part that ends the term.
func (t *Term) answerStepDown(msg *nats.Msg) {
	var wish stepDownRequest
	err := json.Unmarshal(msg.Data, &wish)
	if err == nil && wish.To == t.r.cfg.Name {
		err = fmt.Errorf("replica %s leads already", wish.To)
	}
	if err == nil && wish.To != "" {
		answers := t.r.group.ByName(t.r.ctx)
		if m, there := answers[wish.To]; there && m.Role == members.RoleJoining {
			err = fmt.Errorf("replica %s is joining, and cannot lead yet", wish.To)
		} else if !there {
			err = fmt.Errorf("replica %s does not answer; there are %v", wish.To, slices.Sorted(maps.Keys(answers)))
		}
	}
	text := ""
	if err != nil {
		text = err.Error()
	} else {
		select {
		case t.resign <- wish.To:
		default: // another request came before
		}
	}
	if err := msg.Respond([]byte(text)); err != nil {
		t.r.cfg.Logger.Debug("who asked the leader to step down was not answered", "error", err)
	}
}
