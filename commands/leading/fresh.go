package leading

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/allot-project/allot/commands"
)

var _ commands.Freshness = (*Replica)(nil)

// questions are the reads that wait until the leader says what was answered so
// far. One question at a time is sent, for all reads that came before it.
type questions struct {
	mu      sync.Mutex
	running bool
	next    *question // for reads that come while one is under way; guarded by mu
}

// question is one question to the leader, for all reads that wait for it.
type question struct {
	done     chan struct{}
	sequence uint64
	err      error
}

// Fresh implements commands.Freshness.
func (r *Replica) Fresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Limit)
	defer cancel()
	for {
		err := r.tryFresh(ctx)
		if !again(err) {
			return err
		}
		if !r.pause(ctx) {
			return fmt.Errorf("%w; for what may be old, ask with Allot-Consistency: stale", err)
		}
	}
}

func (r *Replica) tryFresh(ctx context.Context) error {
	if t := r.leading.Load(); t != nil {
		return t.Await(ctx.Done())
	}
	q := r.fresh.join(r.askHead)
	select {
	case <-q.done:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNoLeader, ctx.Err())
	}
	if q.err != nil {
		return q.err
	}
	if err := r.arrived(ctx, q.sequence); err != nil {
		return err
	}
	if r.Ahead() {
		return fmt.Errorf("%w: it does not know yet of all that was read in the log here", errNoLeader)
	}
	return nil
}

// Ahead implements commands.Freshness (rule 7). What the leader itself shows it knows.
func (r *Replica) Ahead() bool {
	return r.leading.Load() == nil && r.cfg.Models.Checkpoint().Sequence > r.view.sequence.Load()
}

// join adds a read to the next question, and sends the question unless one is
// under way.
func (qs *questions) join(ask func() (uint64, error)) *question {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.next == nil {
		qs.next = &question{done: make(chan struct{})}
	}
	q := qs.next
	if !qs.running {
		qs.running = true
		go qs.askLoop(ask)
	}
	return q
}

// askLoop sends questions as long as some read waits.
func (qs *questions) askLoop(ask func() (uint64, error)) {
	for {
		qs.mu.Lock()
		q := qs.next
		qs.next = nil
		qs.running = q != nil
		qs.mu.Unlock()
		if q == nil {
			return
		}
		q.sequence, q.err = ask()
		close(q.done)
	}
}

// askHead asks the leader for the newest sequence that a client was told.
func (r *Replica) askHead() (uint64, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Lease)
	defer cancel()
	msg, err := r.ask(ctx, headSubject, nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoLeader, err)
	}
	var answer headAnswer
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return 0, fmt.Errorf("cluster: the leader's answer cannot be read: %w", err)
	}
	if answer.Failure != "" {
		return 0, fmt.Errorf("%w: %s", errNoLeader, answer.Failure)
	}
	return answer.Sequence, nil
}
