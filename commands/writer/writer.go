// Package writer is the single writer: it decides commands one after the
// other, appends the accepted ones to the log, and answers. The files are the
// way of a command, in order: queue, commit, known, finish, and recover when an
// append fails; waiting tells callers when the log is silent, and restore makes
// the State that a writer begins with.
//
// # How a command goes
//
//  1. Submit puts a call into one bounded queue (queue.go).
//  2. The loop takes what is queued, decides each command against its State,
//     applies the events at once and adds the record to the open commit
//     (commit.go). So a command is decided against everything before it,
//     durable or not. A command id that was accepted before is answered with
//     its first result (known.go).
//  3. The commit is sealed and appended under the one sequence that it may
//     have (Writer.send). What comes meanwhile shares the next one. That one
//     waits a moment for those who have just been answered, of whom most come
//     right back: alone, the first of them would keep all others waiting for
//     another append. Only behind a full commit the loop runs ahead, by at
//     most maxAhead.
//  4. The finisher takes the commits in order. When one is durable it is
//     folded into the read models and its calls are answered (finish.go).
//     Rejections wait for the commits they may depend on in the same way.
//  5. When an append fails, everything since is taken back, the log is read to
//     its end, and the calls are decided again (recover.go). A call whose
//     command id turns up in the log is answered from there.
//
// # Invariants
//
//  1. Only the loop touches State and builder, so that they need no lock; the
//     finisher gets what it needs with the flight, and the loop undoes only
//     after a barrier behind which the finisher is idle.
//  2. Nothing is answered before it is durable in the log and readable: calls
//     are answered by the finisher, after Fold, in the order of the log.
//  3. An answer without a record (a rejection, nothing to do, a dry run, a
//     fork) depends on what was decided before it, and is answered behind it;
//     where others could lead, only when it is certain that none did.
//  4. Every append names the one sequence it may have: at most one writer's
//     commit is accepted, and a flight after a failed one is failed, too.
//  5. A command id is in the log at most once: it is pending from the moment it
//     is looked up until it is answered, and the same id submitted meanwhile
//     follows the first call instead of being decided.
//  6. A consumer changes at most once in a commit, because its generation is
//     the commit's sequence.
//  7. Every call is answered exactly once, whatever happens: by the finisher,
//     by known, by the watch while the log is silent, or by stop.
package writer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// Options are a Writer's choices.
type Options struct {
	// Now is the writer's clock.
	Now    func() time.Time
	Logger *slog.Logger
	// SaveSnapshot, if set, is offered a fork of the State when
	// SnapshotRecords records or SnapshotAge have passed since the last one.
	// It is called once the State is durable, one call at a time.
	SaveSnapshot    func(*ledger.State)
	SnapshotRecords int
	SnapshotAge     time.Duration
	// Rejected, if set, is told of every command that was decided and
	// rejected, but for dry runs. It must not block.
	Rejected func(commands.Rejected)
	// AnswerWithin, if set, is how long callers wait while the log says
	// nothing; then they are told ErrLogUnavailable.
	AnswerWithin time.Duration
	// Refuse, if set, says why nothing must be written to the log now, nor
	// what it holds be believed; or nil. It is asked for each command.
	Refuse func() error
	// Leadership, if set, is why this writer may decide, where others could.
	Leadership Leadership
	// Search, if set, searches for submissions with claims (commands.Claims), and
	// has each decided with what it has found.
	Search Search
	// Landed, if set, is told of each commit, encoded, that is durable and can be
	// read, before anybody else is. It must not block.
	Landed func(encoded []byte)
	// Observer, if set, is told how long commands and commits take.
	Observer Observer
}

// Search searches for a submission, has it decided, and tells done what Submit
// would return: see package claims.
type Search func(
	s commands.Submission, decide func(commands.Submission, func(commands.Outcome, error)),
	done func(commands.Outcome, error),
)

// Leadership is what a writer has while it is the one that decides. It is lost
// for good.
type Leadership interface {
	// Await returns nil once it is certain that at the time of the call nobody
	// else had begun to lead. It fails with commands.ErrNotLeading if somebody
	// has, or if it is not certain when quit is closed.
	Await(quit <-chan struct{}) error
	// Lost is closed when somebody else leads.
	Lost() <-chan struct{}
	// Instance is who leads, as the records of terms name it.
	Instance() ledger.UUID
}

// Writer is the single writer. Two goroutines share the work: the loop
// decides, and the finisher waits for the log. Were it one, nothing could be
// decided while the disk writes.
type Writer struct {
	log    ledger.Log
	models ReadModels
	opts   Options

	// queue holds what was submitted. It is bounded, so that overload is an
	// error at once and not a wait without end; callers never block on it.
	queue chan *call
	// flights leads from the loop to the finisher, in the order of the log: that
	// order is the order of the answers (invariants 2 and 3). It takes one more
	// than can be under way, and a barrier, so that the loop never blocks on it.
	flights chan *flight
	// acked tells the loop that the append of a commit has ended, well or not, so
	// that the next may begin before the finisher has folded this one.
	acked chan struct{}
	// trouble tells the loop that an append failed. One token: whoever takes it
	// without recovering puts it back.
	trouble chan struct{}
	// quit is closed by Close: decide what is queued, and stop.
	quit chan struct{}
	// done is closed when loop and finisher have ended.
	done chan struct{}
	// lost is closed when somebody else leads; nil: nobody else can.
	lost <-chan struct{}

	// mu guards what submitters, loop and finisher share. It is held for a map's
	// or a list's change and never during I/O or a callback, so that a slow log
	// keeps nobody from being refused.
	mu      sync.Mutex
	pending map[ledger.UUID]*call // accepted, not yet answered
	closed  bool                  // nothing more is taken
	failure error                 // why the writer stopped by itself
	callers callers

	// What follows is the loop's alone (invariant 1).
	state        *ledger.State
	builder      *ledger.CommitBuilder
	again        []*call // to be decided before the queue
	lastSnapshot time.Time
	unsaved      int         // records since the last snapshot
	underWay     int         // commits that are being appended
	full         bool        // the last commit ended because it was full
	lastCalls    [2]int      // of the last two commits
	patience     *time.Timer // how much longer the open commit waits for calls
	impatient    bool        // patience runs
	term         ledger.Term // when the log was read last

	appendTook atomic.Int64   // the last one, in nanoseconds: the finisher measures, the loop waits as long
	saving     atomic.Bool    // a snapshot is being written: one at a time
	saves      sync.WaitGroup // so that done comes after it

	// left is the State at the last commit that is durable and readable, set when
	// the writer has stopped; nil: that is not known.
	left *ledger.State
}

// New starts the writer on a State that Restore returned.
func New(log ledger.Log, models ReadModels, state *ledger.State, opts Options) *Writer {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Writer{
		log: log, models: models, opts: opts,
		queue:   make(chan *call, QueueLength),
		acked:   make(chan struct{}, maxAhead),
		flights: make(chan *flight, maxAhead+2),
		trouble: make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		pending: make(map[ledger.UUID]*call),
		state:   state, builder: ledger.NewCommitBuilder(),
		lastSnapshot: opts.Now(), patience: time.NewTimer(0), term: state.Term(),
	}
	if opts.Leadership != nil {
		w.lost = opts.Leadership.Lost()
	}
	go w.run()
	if opts.AnswerWithin > 0 {
		go w.watch()
	}
	return w
}

// Submit carries a command out. It returns when the command's record is
// durable and readable, or with the reason why it was rejected. An error says
// nothing about the command; see the errors above.
func (w *Writer) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	return await(ctx, func(done func(commands.Outcome, error)) { w.Start(s, done) })
}

// Start is Submit for those who have many commands under way: it returns at
// once, and done is told what Submit would return. It is told once, by the
// writer itself, maybe before Start returns, and must not block. What became
// durable together is told together.
func (w *Writer) Start(s commands.Submission, done func(commands.Outcome, error)) {
	if s.ID.IsNil() && !s.DryRun {
		w.turnAway(s, done, commands.Outcome{Rejection: &commands.Rejection{
			Code: commands.CodeInvalid, Message: "command_id: is required", Facts: commands.Facts{Field: "command_id"},
		}}, nil)
		return
	}
	if rejection := s.Command.Check(); rejection != nil {
		w.turnAway(s, done, commands.Outcome{Rejection: rejection}, nil)
		return
	}
	if w.opts.Search != nil && commands.Claims(s.Command) != nil {
		w.opts.Search(s, w.decideFound, done)
		return
	}
	w.decideFound(s, done)
}

// decideFound has a submission decided for which nothing needs to be searched.
func (w *Writer) decideFound(s commands.Submission, done func(commands.Outcome, error)) {
	fingerprint, err := commands.FingerprintOf(s.Command)
	if err == nil {
		err = w.enqueue(&call{Submission: s, fingerprint: fingerprint, consumers: s.Command.Consumers(), done: done})
	}
	if err != nil {
		w.turnAway(s, done, commands.Outcome{}, err)
	}
}

// turnAway answers a command that never waited.
func (w *Writer) turnAway(
	s commands.Submission, done func(commands.Outcome, error), outcome commands.Outcome, err error,
) {
	if w.opts.Observer != nil {
		w.opts.Observer.Answered(s.Command.CommandName(), outcome, err, 0)
	}
	done(outcome, err)
}

// Fork returns a copy of the State as it is after some commit that is durable
// and readable. It is the caller's.
func (w *Writer) Fork(ctx context.Context) (*ledger.State, error) {
	var c *call
	_, err := await(ctx, func(done func(commands.Outcome, error)) {
		c = &call{forking: true, done: done}
		if err := w.enqueue(c); err != nil {
			done(commands.Outcome{}, err)
		}
	})
	if err != nil {
		return nil, err
	}
	return c.forked, nil
}

// await starts something and waits for its answer.
func await(ctx context.Context, start func(done func(commands.Outcome, error))) (commands.Outcome, error) {
	type answer struct {
		outcome commands.Outcome
		err     error
	}
	answered := make(chan answer, 1)
	start(func(outcome commands.Outcome, err error) { answered <- answer{outcome, err} })
	select {
	case a := <-answered:
		return a.outcome, a.err
	case <-ctx.Done():
		return commands.Outcome{}, fmt.Errorf("%w: %w", commands.ErrNoAnswer, ctx.Err())
	}
}

// Close lets what is queued be decided and answered and a snapshot that is
// being written come to its end, and stops.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.quit)
	}
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// State returns the State at the last durable commit to its next user, once
// the writer is done; nil if it is not known, because the writer has failed.
func (w *Writer) State() *ledger.State {
	<-w.done
	return w.left
}

// Done is closed when the writer has stopped, by Close or by itself.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Waiting is how many calls are queued.
func (w *Writer) Waiting() int { return len(w.queue) }
