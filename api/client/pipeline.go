package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// How started commands travel.
const (
	// batchesUnderWay is how many messages with started commands may wait for
	// their replies. Commands that come meanwhile travel together in the next
	// message, so that messages grow with the load.
	batchesUnderWay = 8
	// maxStarted is the largest number of commands in one message.
	maxStarted = 512
)

// Pending is a command under way.
type Pending struct {
	item   Item
	done   chan struct{}
	once   sync.Once
	forget func() bool // ends with the context
	result Result
	err    error
}

// Start submits a command without waiting for its answer, so that many can be
// under way on one connection. Commands that are started while others are on
// their way share messages. Each is answered on its own. They may be carried out
// in another order than that in which they were started.
func (c *Client) Start(ctx context.Context, command commands.Command) *Pending {
	return c.StartAs(ctx, commands.NewID(), command)
}

// StartAs is Start under an id of the caller's. With the id, the caller can
// safely submit the command again after a crash.
func (c *Client) StartAs(ctx context.Context, id ledger.UUID, command commands.Command) *Pending {
	p := &Pending{item: Item{ID: id, Command: command}, done: make(chan struct{})}
	p.forget = context.AfterFunc(ctx, func() {
		p.resolve(Result{}, fmt.Errorf("%w: %w", ErrUnanswered, context.Cause(ctx)))
	})
	c.pipeline.add(p)
	return p
}

// Wait returns the outcome of the command.
func (p *Pending) Wait() (Result, error) {
	<-p.done
	return p.result, p.err
}

// resolve answers the command. Only the first answer counts.
func (p *Pending) resolve(result Result, err error) {
	p.once.Do(func() {
		p.result, p.err = result, err
		close(p.done)
	})
}

// pipeline collects started commands into batches.
type pipeline struct {
	client *Client

	mu       sync.Mutex
	waiting  []*Pending // guarded by mu
	underWay int        // number of batches; guarded by mu
}

func (q *pipeline) add(p *Pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, p)
	if q.underWay < batchesUnderWay {
		q.underWay++
		go q.run()
	}
}

// run sends batches until no command waits.
func (q *pipeline) run() {
	for {
		batch := q.take()
		if batch == nil {
			return
		}
		q.send(batch)
	}
}

func (q *pipeline) take() []*Pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxStarted)
	if n == 0 {
		q.underWay--
		return nil
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return batch
}

// send sends a batch and answers its commands. It gives up when the contexts of
// all of them have ended.
func (q *pipeline) send(batch []*Pending) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for _, p := range batch {
			<-p.done
		}
		cancel()
	}()
	items := make([]Item, len(batch))
	for i, p := range batch {
		items[i] = p.item
	}
	results, err := q.client.SubmitAll(ctx, items)
	for i, p := range batch {
		p.forget()
		if err != nil {
			p.resolve(Result{}, err)
			continue
		}
		p.resolve(results[i].Result, results[i].Err)
	}
}
