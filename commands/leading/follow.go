package leading

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
)

const (
	// announced is how many commits may wait to be folded. Further commits are
	// read from the log again.
	announced = 1024
	// poll is how often the log is checked, in case the leader announces nothing.
	poll = 200 * time.Millisecond
	// pollTimeout is how long one such check may take.
	pollTimeout = 10 * time.Second
)

// follower folds the log's commits into State and read models. The leader announces durable commits, which saves
// searching for them; missed commits are read from the log, as far as a leader knows of them. It needs no
// consumer, which would have to be made anew just when servers are lost.
type follower struct {
	r       *Replica
	state   *ledger.State // for the run only
	commits chan []byte
	forks   chan chan *ledger.State
	quit    chan struct{}
	done    chan struct{}
	current atomic.Bool   // it has folded everything that was announced a moment ago
	head    atomic.Uint64 // the sequence that it has folded
	polled  time.Time
}

func (r *Replica) follow(state *ledger.State) {
	f := &follower{
		r: r, state: state, commits: make(chan []byte, announced), forks: make(chan chan *ledger.State),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	f.head.Store(state.Head().Sequence)
	r.view.folds(state.Term(), r.clock())
	r.follower.Store(f)
	go f.run()
}

// stop ends the follower, and returns the State that it has reached.
func (f *follower) stop() *ledger.State {
	close(f.quit)
	<-f.done
	return f.state
}

func (f *follower) run() {
	defer close(f.done)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	err := f.poll()
	for err == nil {
		select {
		case commit := <-f.commits:
			err = f.take(commit)
		case <-tick.C:
			if time.Since(f.polled) >= poll {
				err = f.poll()
			}
		case fork := <-f.forks:
			fork <- f.state.Fork()
		case <-f.quit:
			return
		}
	}
	f.current.Store(false)
	f.r.fail(fmt.Errorf("this replica cannot follow: %w", err))
	<-f.quit
}

// take folds an announced commit.
func (f *follower) take(encoded []byte) error {
	sequence, prev, err := ledger.CommitLink(encoded)
	if err != nil || sequence < f.state.Next() {
		return nil // commits that cannot be read are looked for in the log
	}
	if sequence > f.state.Next() || prev != f.state.Head().Digest {
		return f.poll()
	}
	commit, err := ledger.DecodeCommit(encoded)
	if err != nil {
		return f.poll()
	}
	f.polled = time.Now()
	return f.fold(commit)
}

// poll folds what the nearest replica of the log holds.
func (f *follower) poll() error {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	go func() {
		select {
		case <-f.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	links := chain.New(f.state.Head())
	take := func(e ledger.Entry) error {
		commit, err := links.Next(e)
		if err != nil || commit == nil {
			return err
		}
		if commit.Sequence > f.r.view.sequence.Load() {
			return errNotAnnounced
		}
		return f.fold(commit)
	}
	err := f.r.cfg.Log.Tail(ctx, f.state.Next(), take)
	f.polled = time.Now()
	if errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return nil // the next check may find a replica
	}
	if err == nil || errors.Is(err, errNotAnnounced) {
		f.current.Store(f.head.Load() >= f.r.view.sequence.Load())
		return nil
	}
	return err
}

// errNotAnnounced means that the log holds a commit which no leader is known to
// know, so that it may not be shown (rule 7).
var errNotAnnounced = errors.New("cluster: a commit that was not announced")

func (f *follower) fold(commit *ledger.Commit) error {
	changes, err := f.state.Fold(commit)
	if err != nil {
		return err
	}
	if commit.Sequence > f.r.cfg.Models.Checkpoint().Sequence {
		if err := f.r.cfg.Models.Fold(commit, changes); err != nil {
			return err
		}
	}
	f.r.view.folds(f.state.Term(), f.r.clock())
	f.r.cfg.Log.ObservedLast(commit.Sequence)
	f.head.Store(commit.Sequence)
	due := f.r.cfg.Snapshots
	due.Folded(commit)
	if due.Due(f.state) {
		due.Save(f.state.Fork())
	}
	return nil
}

// fork asks the run for a copy of the State.
func (f *follower) fork(ctx context.Context) (*ledger.State, error) {
	answer := make(chan *ledger.State, 1)
	select {
	case f.forks <- answer:
		return <-answer, nil
	case <-f.done:
		return nil, commands.ErrNotLeading
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// arrived waits until a sequence of which the leader has told can be read here.
func (r *Replica) arrived(ctx context.Context, sequence uint64) error {
	r.view.saw(sequence) // its announcement may have been lost
	for {
		changed := r.cfg.Models.Changed()
		if r.cfg.Models.Checkpoint().Sequence >= sequence {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: sequence %d has not come here yet", commands.ErrNoAnswer, sequence)
		}
	}
}
