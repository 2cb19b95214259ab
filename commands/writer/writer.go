// Package writer is the single writer: it decides commands one after the other,
// appends the accepted ones to the log, and answers. A command passes through
// these files in turn: queue, commit, finish, and recover if an append
// fails. The file waiting answers callers while the log is silent, and restore
// makes the State that a writer begins with.
//
// # The way of a command
//
//  1. Submit puts a call into one bounded queue (queue.go).
//  2. The loop takes the queued calls, decides each command against the State,
//     applies the events at once and adds the record to the open commit
//     (commit.go). So a command is decided against everything before it, durable
//     or not. A command id that was accepted before is answered with its first
//     result (loop.known).
//  3. The commit is sealed and appended under the one sequence that it may get
//     (loop.send). Calls that come meanwhile share the next commit. That commit
//     stays open for a moment for the callers that were just answered, because
//     most of them call again at once; otherwise the first of them would keep the
//     others waiting for an append of its own. Only behind a full commit the loop
//     runs ahead, by at most maxAhead, and only where no other server could write.
//  4. The finisher takes the commits in order. When a commit is durable, it is
//     folded into the read models and its calls are answered (finish.go).
//     Rejections wait in the same way for the commits that they may depend on.
//  5. When an append fails, its commit and all later ones are taken back, the log
//     is read to its end, and the calls are decided again (recover.go). If the
//     log turns out to have a call's command id, the call is answered from there.
//
// # Invariants
//
//  1. Only the loop touches State and builder, so they need no lock. The finisher
//     gets what it needs with the flight, and the loop undoes only behind a
//     barrier, where the finisher is idle.
//  2. Nothing is answered before it is durable in the log and readable: calls
//     are answered by the finisher, after Fold, in the order of the log.
//  3. An answer without a record (a rejection, nothing to change, a dry run, a
//     fork) rests on earlier decisions, and is given after theirs. Where another
//     server could lead, it is given only when it is certain that none did.
//  4. Every append names the one sequence that it may get, so the log accepts one
//     writer's commit at most, and a flight behind a failed one fails, too.
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
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/snapshots"
)

// Options configure a Writer.
type Options struct {
	// Now returns the current time for records.
	Now    func() time.Time
	Logger *slog.Logger
	// Snapshots, if set, gets a fork of the State when one is due, once the fork's
	// last commit is durable. It may still be saved when the writer has ended:
	// what a snapshot reads is closed only after that.
	Snapshots *snapshots.Schedule
	// Rejected, if set, is called with every rejected command, except dry runs.
	// It must not block.
	Rejected func(commands.Rejected)
	// AnswerWithin, if set, is how long callers wait while the log is silent,
	// until they get ErrLogUnavailable.
	AnswerWithin time.Duration
	// Refuse, if set, is asked for each command. It returns why the log must not
	// be written now, nor its contents be believed; or nil.
	Refuse func() error
	// Leadership, if set, says whether this writer may decide, where other
	// servers could.
	Leadership Leadership
	// Search, if set, searches for submissions with claims (commands.Claims), and
	// has each decided with what it has found.
	Search Search
	// Landed, if set, is called with each encoded commit that is durable and
	// readable, before any caller is answered. It must not block.
	Landed func(encoded []byte)
	// Observer, if set, is told how long commands and commits take.
	Observer Observer
}

// Search searches for a submission, has it decided, and tells done what Submit
// would return: see package placing.
type Search func(s commands.Submission, decide commands.Decider, done commands.Done)

// Leadership is the right to decide. Once lost, it never comes back.
type Leadership interface {
	// Await returns nil once it is certain that no other server had begun to lead
	// at the time of the call. It fails with commands.ErrNotLeading if one had,
	// or if that is still uncertain when quit is closed.
	Await(quit <-chan struct{}) error
	// Lost is closed when another server leads.
	Lost() <-chan struct{}
	// Instance names this leader, as it stands in the records of terms.
	Instance() ledger.UUID
}

// Writer is the single writer. Two goroutines share the work: the loop decides,
// and the finisher waits for the log. With a single goroutine nothing could be
// decided while the disk writes.
type Writer struct {
	log    ledger.Log
	models ReadModels
	opts   Options
	budget fair.Budget // of what clients add to the log

	// queue holds submitted calls. It is bounded and callers never block on it,
	// so that overload is an error at once instead of an endless wait.
	queue chan *pendingCommand
	// flights leads from the loop to the finisher, in the order of the log, which
	// is the order of the answers (invariants 2 and 3). It holds one flight more
	// than may be under way, and a barrier, so that the loop never blocks on it.
	flights chan *inflightCommit
	// acked tells the loop that an append has ended, with or without success, so
	// that the next commit may begin before the finisher has folded this one.
	acked chan struct{}
	// appendFailed tells the loop that an append failed. It holds one token, which is
	// put back if it is taken without recovering.
	appendFailed chan struct{}
	// quit is closed by Close: decide what is queued, and stop.
	quit chan struct{}
	// done is closed when loop and finisher have ended.
	done chan struct{}
	// lost is closed when another server leads; nil if no other can.
	lost <-chan struct{}

	// mu guards the fields that submitters, loop and finisher share. It is held
	// while a map or a list changes and never during I/O or a callback, so that
	// even with a slow log callers are refused at once.
	mu      sync.Mutex
	pending map[ledger.UUID]*pendingCommand // accepted, not yet answered
	closed  bool                            // no more calls are taken
	failure error                           // why the writer stopped by itself
	callers callers

	appendTook atomic.Int64 // nanoseconds; the finisher measures it, the loop waits as long

	// finalState is the State at the last durable and readable commit, set when the
	// writer has stopped. It is nil if that State is unknown.
	finalState *ledger.State
}

// New starts the writer on a State that Restore returned.
func New(log ledger.Log, models ReadModels, state *ledger.State, opts Options) *Writer {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Writer{
		log: log, models: models, opts: opts,
		queue:        make(chan *pendingCommand, QueueLength),
		acked:        make(chan struct{}, maxAhead),
		flights:      make(chan *inflightCommit, maxAhead+2),
		appendFailed: make(chan struct{}, 1),
		quit:         make(chan struct{}),
		done:         make(chan struct{}),
		pending:      make(map[ledger.UUID]*pendingCommand),
		callers:      callers{some: make(chan struct{}, 1)},
	}
	if opts.Leadership != nil {
		w.lost = opts.Leadership.Lost()
	}
	l := &loop{
		Writer: w, state: state, builder: ledger.NewCommitBuilder(), patience: time.NewTimer(0), term: state.Term(),
	}
	go l.run()
	if opts.AnswerWithin > 0 {
		go w.watch()
	}
	return w
}

// Submit carries a command out. It returns when the command's record is durable
// and readable, or with the reason of its rejection. After an error it is unknown
// whether the command was carried out; see the errors of package commands.
func (w *Writer) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	answered := make(chan answer, 1)
	w.Start(s, func(outcome commands.Outcome, err error) { answered <- answer{outcome, err} })
	select {
	case a := <-answered:
		return a.outcome, a.err
	case <-ctx.Done():
		return commands.Outcome{}, noAnswer(ctx)
	}
}

// answer is what a call is answered.
type answer struct {
	outcome commands.Outcome
	err     error
}

func noAnswer(ctx context.Context) error {
	return fmt.Errorf("%w: %w", commands.ErrNoAnswer, ctx.Err())
}

// Start is Submit for callers with many commands under way. It returns at once,
// and done is called with the result of Submit: once, by the writer's goroutine,
// maybe before Start returns. done must not block. Commands that became durable
// together are reported together.
func (w *Writer) Start(s commands.Submission, done commands.Done) {
	if s.ID.IsNil() && !s.DryRun {
		w.turnAway(s, done, commands.Outcome{Rejection: demand.Invalid("command_id", "is required")}, nil)
		return
	}
	if rejection := commands.Check(s.Command); rejection != nil {
		w.turnAway(s, done, commands.Outcome{Rejection: rejection}, nil)
		return
	}
	if w.opts.Search != nil && commands.Claims(s.Command) != nil {
		w.opts.Search(s, w.observeSearch(s.Trace), done)
		return
	}
	w.decideFound(s, done)
}

// decideFound has a submission decided for which nothing needs to be searched.
func (w *Writer) decideFound(s commands.Submission, done commands.Done) {
	fingerprint, err := commands.FingerprintOf(s.Command)
	if err != nil {
		w.turnAway(s, done, commands.Outcome{}, err)
		return
	}
	c := &pendingCommand{Submission: s, fingerprint: fingerprint, consumers: commands.Consumers(s.Command), done: done}
	if err := w.enqueue(c); err != nil {
		w.turnAway(c.Submission, c.done, commands.Outcome{}, err)
	}
}

func (w *Writer) turnAway(s commands.Submission, done commands.Done, outcome commands.Outcome, err error) {
	if w.opts.Observer != nil {
		w.opts.Observer.Answered(commands.NameOf(s.Command), outcome, err, 0)
		if s.Trace != nil {
			now := time.Now()
			w.opts.Observer.Traced(s, Times{Submitted: now, Answered: now}, outcome, err)
		}
	}
	done(outcome, err)
}

// Fork returns a copy of the State after a commit that is durable and readable.
// The copy belongs to the caller.
func (w *Writer) Fork(ctx context.Context) (*ledger.State, error) {
	answered := make(chan error, 1)
	c := &pendingCommand{forking: true, done: func(_ commands.Outcome, err error) { answered <- err }}
	if err := w.enqueue(c); err != nil {
		return nil, err
	}
	select {
	case err := <-answered:
		return c.forked, err
	case <-ctx.Done():
		return nil, noAnswer(ctx)
	}
}

// Close stops the writer after queued calls are decided and answered and a
// snapshot that is being written is complete.
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

// State returns the State at the last durable commit, for its next user, once the
// writer is done. It returns nil if that State is unknown, because the writer has
// failed.
func (w *Writer) State() *ledger.State {
	<-w.done
	return w.finalState
}

// Done is closed when the writer has stopped, by Close or by itself.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Waiting returns how many calls are queued.
func (w *Writer) Waiting() int { return len(w.queue) }

// ReadModels are the read models, as far as the Writer needs them.
type ReadModels interface {
	// Ready returns nil if the other methods answer at once.
	// Otherwise they block until they can answer, and the writer refuses new commands
	// meanwhile.
	Ready() error
	// Fold makes a durable commit readable. Commits come in order.
	Fold(*ledger.Commit, ledger.Changes) error
	// Command finds the record of a command id among the folded commits.
	Command(id ledger.UUID) (ledger.CommandResult, bool, error)
	// Record returns a record of a folded commit; nil if there is none.
	Record(ledger.Address) (*ledger.Record, bool, error)
	// Checkpoint returns the head of the last folded commit.
	Checkpoint() ledger.Head
}
