package leading

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/members"
)

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
