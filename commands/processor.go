package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger"
)

// How the Processor works, in order:
//
//  1. Submit puts a call into one bounded queue.
//  2. The loop takes what is queued, decides each command against its State,
//     applies the events at once and adds the record to the open commit. So a
//     command is decided against everything before it, durable or not.
//  3. The commit is appended under the one sequence that it may have. What
//     comes meanwhile shares the next one. That one waits a moment for those
//     who have just been answered, of whom most come right back: alone, the
//     first of them would keep all others waiting for another append. Only
//     behind a full commit the loop runs ahead, by at most maxAhead.
//  4. The finisher takes the commits in order. When one is durable it is
//     folded into the read models and its calls are answered. Rejections
//     wait for the commits they may depend on in the same way.
//  5. When an append fails, everything undone since is taken back, the log
//     is read up to its end, and the calls are decided again. A call whose
//     command id turns up in the log is answered from there.
//
// Invariants: only the loop touches the State; nothing is answered before it
// is durable and readable; a command id is in the log at most once.

// Limits of the Processor.
const (
	// QueueLength is how many calls may wait; more are refused with ErrBusy.
	QueueLength = 8192
	// maxAhead is how many commits may be on their way to the log, behind each
	// other: all but the last are full.
	maxAhead = 2
	// maxPatience is how long a commit waits for more calls at most.
	maxPatience = 2 * time.Millisecond
	// groupRecords and groupBytes end a commit, so that a flood, be it of
	// commands that are rejected, does not make the first caller in it wait
	// for ever.
	groupRecords = 2048
	groupBytes   = 1 << 20
	// appendTries is how often a call is decided again after failed appends
	// before its caller is told that the log cannot be written.
	appendTries = 10
	// retryPause, times the tries so far, lies between tries.
	retryPause = 20 * time.Millisecond
)

// Errors of Submit. A command may still be carried out after any of them but
// ErrBusy and ErrUnreadable; submitting it again with the same id is safe and gives its result.
var (
	// ErrBusy: the queue is full. Nothing happened.
	ErrBusy = errors.New("commands: too many commands are waiting")
	// ErrStopped: the processor stopped before it answered.
	ErrStopped = errors.New("commands: the processor has stopped")
	// ErrNoAnswer: the caller's context ended first.
	ErrNoAnswer = errors.New("commands: no answer in time")
	// ErrUnreadable: what happens could not be read now. Nothing happened.
	ErrUnreadable = errors.New("commands: the read models are not ready")
	// ErrLogUnavailable: the log does not take commits.
	ErrLogUnavailable = errors.New("commands: the log cannot be written")
)

// Passing reports whether an error of Submit, or of reading the log, is about a
// state that passes, so that the same may succeed later.
func Passing(err error) bool {
	for _, passing := range []error{
		ErrBusy, ErrStopped, ErrNoAnswer, ErrUnreadable, ErrLogUnavailable, ledger.ErrUnavailable, ledger.ErrTooManyReaders,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// Submitter carries commands out; the Processor does.
type Submitter interface {
	Submit(context.Context, Submission) (Outcome, error)
}

// Starter is a Submitter that can have many commands under way; see
// Processor.Start.
type Starter interface {
	Submitter
	Start(s Submission, done func(Outcome, error))
}

// Projection is what the Processor needs of the read models.
type Projection interface {
	// Ready is nil if the others answer at once. Otherwise they wait until
	// they can, and new commands are refused meanwhile.
	Ready() error
	// Fold makes a durable commit readable. Commits come in order.
	Fold(*ledger.Commit, ledger.Changes) error
	// Command finds the record of a command id among the folded commits.
	Command(id ledger.UUID) (ledger.CommandResult, bool, error)
	// Checkpoint is the position of the last folded commit.
	Checkpoint() ledger.Head
	// Mark is the position of the newest commit that was ever folded, also
	// when the read models themselves were lost since.
	Mark() ledger.Head
}

// Options are the Processor's choices.
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
	Rejected func(Rejected)
	// AnswerWithin, if set, is how long callers wait while the log says
	// nothing; then they are told ErrLogUnavailable.
	AnswerWithin time.Duration
	// Refuse, if set, says why nothing must be written to the log now, nor
	// what it holds be believed; or nil. It is asked for each command.
	Refuse func() error
}

// Rejected is a command that was decided, and not accepted.
type Rejected struct {
	Submission
	Time int64 // Unix nanoseconds, by the writer's clock
	// Place is the address that its record would have had: it was decided
	// against everything before.
	Place     ledger.Address
	Rejection *Rejection
}

// Processor is the single writer.
type Processor struct {
	log  ledger.Log
	proj Projection
	opts Options

	queue   chan *call
	acked   chan struct{} // the append of a commit has ended, well or not
	flights chan *flight  // from the loop to the finisher, in order
	trouble chan struct{} // the finisher saw an append fail
	quit    chan struct{} // closed by Close: decide what is queued and stop
	done    chan struct{} // closed when loop and finisher have ended

	mu      sync.Mutex
	pending map[ledger.UUID]*call // accepted, not yet answered; guarded by mu
	closed  bool                  // guarded by mu
	failure error                 // why the processor stopped by itself; guarded by mu
	wait    waiting

	// Owned by the loop.
	state        *ledger.State
	builder      *ledger.CommitBuilder
	again        []*call // to be decided before the queue
	lastSnapshot time.Time
	unsaved      int         // records since the last snapshot
	underWay     int         // commits that are being appended
	full         bool        // the last commit ended because it was full
	lastCalls    [2]int      // of the last two commits
	patience     *time.Timer // of the open commit
	waiting      bool        // the open commit's patience has begun to run out

	appendTook atomic.Int64 // the last one, in nanoseconds
	saving     atomic.Bool  // a snapshot is being written
	saves      sync.WaitGroup
}

// call is one submission on its way.
type call struct {
	Submission
	fingerprint ledger.Fingerprint
	consumers   []ledger.UUID // that it names, or was seen to change
	tries       int
	forking     bool           // it asks for a fork of the State, and has no command
	place       ledger.Address // where it was decided
	decided     int64          // when, if it was rejected; Unix nanoseconds
	outcome     Outcome
	err         error
	done        func(Outcome, error)
	followers   []*call // the same submission again, while this one is pending

	told          atomic.Bool // done was called before the outcome was known
	listed        bool        // in the list of those who wait, between:
	before, after *call
	born          uint32 // when it began to wait, in ticks
}

// flight is a commit on its way to the log, or, without a commit, answers
// that must wait for the commits before them.
type flight struct {
	commit   *ledger.Commit // nil: nothing to append
	mark     ledger.Mark
	changes  ledger.Changes
	calls    []*call
	appended chan error // the append's fate; capacity 1
	sent     time.Time
	fork     *ledger.State // to be saved as a snapshot once durable
	barrier  chan []*flight
}

// NewProcessor starts the writer on a State that Restore returned.
func NewProcessor(log ledger.Log, proj Projection, state *ledger.State, opts Options) *Processor {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Processor{
		log: log, proj: proj, opts: opts,
		queue:   make(chan *call, QueueLength),
		acked:   make(chan struct{}, maxAhead),
		flights: make(chan *flight, maxAhead+2),
		trouble: make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		pending: make(map[ledger.UUID]*call),
		state:   state, builder: ledger.NewCommitBuilder(),
		lastSnapshot: opts.Now(), patience: time.NewTimer(0),
	}
	go p.run()
	if opts.AnswerWithin > 0 {
		go p.watch()
	}
	return p
}

// Submit carries a command out. It returns when the command's record is
// durable and readable, or with the reason why it was rejected. An error says
// nothing about the command; see the errors above.
func (p *Processor) Submit(ctx context.Context, s Submission) (Outcome, error) {
	return await(ctx, func(done func(Outcome, error)) { p.Start(s, done) })
}

// Start is Submit for those who have many commands under way: it returns at
// once, and done is told what Submit would return. It is told once, by the
// writer itself, maybe before Start returns, and must not block. What became
// durable together is told together.
func (p *Processor) Start(s Submission, done func(Outcome, error)) {
	if s.ID.IsNil() && !s.DryRun {
		done(Outcome{Rejection: invalid("command_id", "is required")}, nil)
		return
	}
	if rejection := s.Command.Check(); rejection != nil {
		done(Outcome{Rejection: rejection}, nil)
		return
	}
	fingerprint, err := fingerprintOf(s.Command)
	if err == nil {
		err = p.enqueue(&call{Submission: s, fingerprint: fingerprint, consumers: s.Command.Consumers(), done: done})
	}
	if err != nil {
		done(Outcome{}, err)
	}
}

// Fork returns a copy of the State as it is after some commit that is durable
// and readable. It is the caller's.
func (p *Processor) Fork(ctx context.Context) (*ledger.State, error) {
	outcome, err := await(ctx, func(done func(Outcome, error)) {
		if err := p.enqueue(&call{forking: true, done: done}); err != nil {
			done(Outcome{}, err)
		}
	})
	return outcome.fork, err
}

// await starts something and waits for its answer.
func await(ctx context.Context, start func(done func(Outcome, error))) (Outcome, error) {
	type answer struct {
		outcome Outcome
		err     error
	}
	answered := make(chan answer, 1)
	start(func(outcome Outcome, err error) { answered <- answer{outcome, err} })
	select {
	case a := <-answered:
		return a.outcome, a.err
	case <-ctx.Done():
		return Outcome{}, fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
	}
}

func (p *Processor) enqueue(c *call) error {
	if err := p.proj.Ready(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrStopped
	}
	if err := p.admit(c); err != nil {
		return err
	}
	select {
	case p.queue <- c:
		c.born = p.wait.tick
		p.wait.calls.add(c)
		return nil
	default:
		return ErrBusy
	}
}

// Close lets what is queued be decided and answered and a snapshot that is
// being written come to its end, and stops.
func (p *Processor) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.quit)
	}
	p.mu.Unlock()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// Done is closed when the processor has stopped, by Close or by itself.
func (p *Processor) Done() <-chan struct{} { return p.done }

// Waiting is how many calls are queued.
func (p *Processor) Waiting() int { return len(p.queue) }

// run is the loop. It ends when Close was called and nothing is left, or when
// going on could break an invariant.
func (p *Processor) run() {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		p.finish()
	}()
	err := p.decideAll()
	close(p.flights)
	<-finished
	p.stop(err)
	p.saves.Wait() // what it reads is closed after the processor
	close(p.done)
}

func (p *Processor) decideAll() error {
	for {
		select {
		case <-p.trouble:
			if err := p.recover(); err != nil {
				return err
			}
			continue
		default:
		}
		next, more := p.nextWaiting()
		if !more {
			if len(p.again) > 0 {
				continue
			}
			return p.drain()
		}
		if next != nil {
			p.again = append(p.again, next)
		}
		if len(p.again) == 0 {
			continue // woken by trouble
		}
		if !p.takeTurn() {
			continue
		}
		if err := p.buildCommit(); err != nil {
			return err
		}
	}
}

// nextWaiting waits for a call, unless some must be decided again. It returns
// false when Close was called and the queue is empty.
func (p *Processor) nextWaiting() (*call, bool) {
	if len(p.again) > 0 {
		return nil, true
	}
	select {
	case c := <-p.queue:
		return c, true
	default:
	}
	select {
	case c := <-p.queue:
		return c, true
	case <-p.trouble:
		p.signalTrouble()
		return nil, true
	case <-p.quit:
		select {
		case c := <-p.queue:
			return c, true
		default:
			return nil, false
		}
	}
}

// drain waits for the commits under way after the last call. If one fails
// there is work again.
func (p *Processor) drain() error {
	failed := p.sync()
	if len(failed) == 0 {
		return nil
	}
	if err := p.recoverFrom(failed); err != nil {
		return err
	}
	return p.decideAll()
}

// takeTurn waits until another commit may be under way. It returns false if an
// append failed meanwhile.
func (p *Processor) takeTurn() bool {
	others := 0
	if p.full {
		others = maxAhead - 1
	}
	for p.underWay > others {
		select {
		case <-p.acked:
			p.underWay--
		case <-p.trouble:
			p.signalTrouble()
			return false
		}
	}
	return true
}

func (p *Processor) signalTrouble() {
	select {
	case p.trouble <- struct{}{}:
	default:
	}
}

// buildCommit decides what is waiting and sends the commit off.
func (p *Processor) buildCommit() error {
	f := &flight{appended: make(chan error, 1), mark: p.state.Begin()}
	p.builder.BeginAt(p.state.Next(), p.state.Head().Digest)
	waiting := p.again
	p.again = nil
	changed := make(map[ledger.UUID]bool)
	p.full, p.waiting = false, false
	var err error
	for err == nil && !p.full {
		c := p.nextCall(&waiting)
		if c == nil {
			c = p.straggler(len(f.calls))
		}
		if c == nil {
			break
		}
		if p.full, err = p.decide(c, f, changed); p.full || err != nil {
			p.again = append(p.again, c)
		}
		p.full = p.full || len(f.calls)+len(p.again) >= groupRecords
	}
	p.again = append(p.again, waiting...)
	if err == nil {
		err = p.send(f)
	}
	if err != nil {
		p.again = append(f.calls, p.again...) // stop answers them
	}
	return err
}

// nextCall takes from the calls that were put back, then from the queue.
func (p *Processor) nextCall(waiting *[]*call) *call {
	if len(*waiting) > 0 {
		c := (*waiting)[0]
		*waiting = (*waiting)[1:]
		return c
	}
	select {
	case c := <-p.queue:
		return c
	default:
		return nil
	}
}

// straggler waits for another call while the commit is smaller than those
// before it: for as long as it would have to wait for another append.
func (p *Processor) straggler(have int) *call {
	if have >= (p.lastCalls[0]+p.lastCalls[1])/2 || len(p.again) > 0 {
		return nil
	}
	if !p.waiting {
		p.waiting = true
		p.patience.Reset(min(maxPatience, time.Duration(p.appendTook.Load())))
	}
	select {
	case c := <-p.queue:
		return c
	case <-p.patience.C:
	case <-p.trouble:
		p.signalTrouble()
	case <-p.quit:
	}
	return nil
}

// decide decides one call and applies and adds its record. It reports full if
// the record must go into the next commit.
func (p *Processor) decide(c *call, f *flight, changed map[ledger.UUID]bool) (full bool, err error) {
	if p.drop(c) {
		return false, nil
	}
	if c.forking {
		return p.fork(c, f), nil
	}
	if anyOf(changed, c.consumers) {
		// A consumer changes at most once in a commit: wait for the next
		// one, and let others on the same consumers wait behind.
		markAll(changed, c.consumers)
		p.again = append(p.again, c)
		return false, nil
	}
	if c.DryRun {
		p.rehearse(c, f)
		return false, nil
	}
	known, err := p.known(c)
	if err != nil || known {
		return false, err
	}
	c.place = ledger.Address{Sequence: p.builder.Sequence(), Index: p.builder.Len()}
	events, rejection := decide(c.Submission, p.state)
	if rejection != nil || len(events) == 0 {
		p.reject(c, f, rejection)
		return false, nil
	}
	touched := consumersChanged(events)
	if anyOf(changed, touched) {
		// It turns out to change a consumer that it does not name. It comes
		// first in the next commit: nothing may overtake it.
		c.consumers = slices.Concat(c.consumers, touched)
		p.forget(c)
		return true, nil
	}
	record := ledger.Record{
		CommandID: c.ID, Fingerprint: c.fingerprint, Command: c.Command.CommandName(),
		Time: p.now(), Actor: c.Actor, RequestID: c.RequestID, Cause: c.Cause, Events: events,
	}
	limit := p.log.MaxCommitBytes()
	if p.builder.Len() > 0 {
		limit = min(limit, groupBytes)
	}
	size, fits, err := p.builder.Add(record, limit)
	if err != nil {
		return false, err
	}
	if !fits && p.builder.Len() > 0 {
		p.forget(c)
		return true, nil
	}
	if !fits {
		p.reject(c, f, tooLarge(size, limit))
		return false, nil
	}
	if err := p.state.Apply(p.builder.Sequence(), &record); err != nil {
		return false, err
	}
	markAll(changed, touched)
	c.outcome = Outcome{Address: c.place}
	f.calls = append(f.calls, c)
	return false, nil
}

// reject answers a command without a record; without a rejection it had
// nothing to do.
func (p *Processor) reject(c *call, f *flight, rejection *Rejection) {
	c.outcome = Outcome{Rejection: rejection}
	if rejection != nil {
		c.decided = p.now()
	}
	f.calls = append(f.calls, c)
}

// fork answers with a copy of the State, which must be between commits: behind
// the records of an open one it waits for the next.
func (p *Processor) fork(c *call, f *flight) (full bool) {
	if p.builder.Len() > 0 {
		return true
	}
	c.outcome = Outcome{fork: p.state.Fork()}
	f.calls = append(f.calls, c)
	return false
}

// rehearse decides a dry run. Its answer waits, like a rejection, for the
// commits that it was decided after: what it says has then come true so far.
func (p *Processor) rehearse(c *call, f *flight) {
	events, rejection := decide(c.Submission, p.state)
	c.outcome = Outcome{Rejection: rejection, Events: events}
	f.calls = append(f.calls, c)
}

// consumersChanged are the consumers that events change.
func consumersChanged(events []ledger.Event) (ids []ledger.UUID) {
	for _, event := range events {
		if topic := event.Topic(); topic.Of == ledger.OfConsumer {
			ids = append(ids, topic.ID)
		}
	}
	return ids
}

func anyOf(set map[ledger.UUID]bool, ids []ledger.UUID) bool {
	for _, id := range ids {
		if set[id] {
			return true
		}
	}
	return false
}

func markAll(set map[ledger.UUID]bool, ids []ledger.UUID) {
	for _, id := range ids {
		set[id] = true
	}
}

func tooLarge(size, limit int) *Rejection {
	return &Rejection{
		Code:    CodeTooLarge,
		Message: fmt.Sprintf("the record would take %d bytes, and the log takes at most %d", size, limit),
		Facts:   Facts{SizeBytes: size, LimitBytes: limit},
	}
}

// now is the writer's clock, which never goes back in the log.
func (p *Processor) now() int64 {
	return max(p.opts.Now().UnixNano(), p.state.LastTime())
}

// known answers a call whose command id was accepted before, and lets it wait
// for the first one if that is still on its way. Otherwise the id is taken.
func (p *Processor) known(c *call) (bool, error) {
	p.mu.Lock()
	earlier, ok := p.pending[c.ID]
	if ok && earlier != c {
		earlier.followers = append(earlier.followers, c)
	}
	p.pending[c.ID] = orFirst(earlier, c)
	p.mu.Unlock()
	if ok && earlier != c {
		return true, nil
	}
	result, found, err := p.proj.Command(c.ID)
	if err != nil {
		return false, err
	}
	if !found {
		return false, nil
	}
	c.outcome = repeatedOutcome(c, result)
	p.answer(c)
	return true, nil
}

func orFirst(earlier, c *call) *call {
	if earlier != nil {
		return earlier
	}
	return c
}

func repeatedOutcome(c *call, first ledger.CommandResult) Outcome {
	if first.Fingerprint != c.fingerprint {
		return Outcome{Rejection: &Rejection{
			Code:    CodeCommandIDReused,
			Message: fmt.Sprintf("command id %s stands for another command, at %s", c.ID, first.Address),
		}}
	}
	return Outcome{Address: first.Address, Repeated: true}
}

// forget gives a command id back that known took.
func (p *Processor) forget(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending[c.ID] == c {
		delete(p.pending, c.ID)
	}
}

// send seals the open commit and starts its append.
func (p *Processor) send(f *flight) error {
	p.lastCalls[0], p.lastCalls[1] = len(f.calls), p.lastCalls[0]
	if p.builder.Len() == 0 {
		if len(f.calls) > 0 {
			p.flights <- f // rejections wait for the commits before them
		}
		return nil
	}
	commit, encoded, err := p.builder.Seal()
	if err != nil {
		return err
	}
	p.state.Advance(commit.Head())
	f.commit, f.changes = commit, p.state.Changes()
	f.fork = p.forkIfDue(len(commit.Records))
	p.underWay++
	f.sent = time.Now()
	p.log.Append(commit.Sequence, encoded, func(err error) { f.appended <- err })
	p.flights <- f
	return nil
}

// forkIfDue returns a copy of the State when it is time for a snapshot.
func (p *Processor) forkIfDue(records int) *ledger.State {
	p.unsaved += records
	due := p.opts.SnapshotRecords > 0 && p.unsaved >= p.opts.SnapshotRecords ||
		p.opts.SnapshotAge > 0 && p.opts.Now().Sub(p.lastSnapshot) >= p.opts.SnapshotAge
	if p.opts.SaveSnapshot == nil || !due || !p.saving.CompareAndSwap(false, true) {
		return nil
	}
	p.unsaved, p.lastSnapshot = 0, p.opts.Now()
	return p.state.Fork()
}

// finish takes flights in order and answers their calls. After a failed
// append it only collects, until the loop has seen the failure.
func (p *Processor) finish() {
	var failed []*flight
	for f := range p.flights {
		if f.barrier != nil {
			f.barrier <- failed
			failed = nil
			continue
		}
		var err error
		if f.commit != nil {
			p.owes(f.sent)
			err = <-f.appended
			p.appendTook.Store(int64(time.Since(f.sent)))
			p.acked <- struct{}{}
		}
		if err == nil && len(failed) == 0 {
			err = p.land(f)
		}
		if err != nil || len(failed) > 0 {
			if len(failed) == 0 {
				p.opts.Logger.Warn("a commit was not appended; reading the log", "error", err)
			}
			failed = append(failed, f)
			p.signalTrouble()
			continue
		}
		for _, c := range f.calls {
			p.tell(c)
			p.answer(c)
		}
	}
	// Nobody will decide these again.
	for _, f := range failed {
		p.giveUp(f.calls, ErrStopped)
	}
}

// land makes a durable commit readable.
func (p *Processor) land(f *flight) error {
	if f.commit == nil {
		return nil
	}
	if err := p.proj.Fold(f.commit, f.changes); err != nil {
		return err
	}
	p.took()
	if f.fork != nil {
		p.saves.Go(func() {
			defer p.saving.Store(false)
			p.opts.SaveSnapshot(f.fork)
		})
	}
	return nil
}

// tell passes a rejection on that has become final.
func (p *Processor) tell(c *call) {
	if p.opts.Rejected != nil && c.decided > 0 && c.outcome.Rejection != nil {
		p.opts.Rejected(Rejected{Submission: c.Submission, Time: c.decided, Place: c.place, Rejection: c.outcome.Rejection})
	}
}

// answer answers a call and those that wait for the same command.
func (p *Processor) answer(c *call) {
	p.mu.Lock()
	if p.pending[c.ID] == c {
		delete(p.pending, c.ID)
	}
	followers := c.followers
	c.followers = nil
	p.wait.calls.remove(c)
	for _, f := range followers {
		p.wait.calls.remove(f)
	}
	p.mu.Unlock()
	for _, f := range followers {
		if f.told.Load() {
			continue
		}
		f.outcome, f.err = c.outcome, c.err
		if c.err == nil && f.fingerprint != c.fingerprint {
			f.outcome = repeatedOutcome(f, ledger.CommandResult{Address: c.outcome.Address, Fingerprint: c.fingerprint})
		} else if c.err == nil && c.outcome.Rejection == nil {
			f.outcome.Repeated = true
		}
		f.done(f.outcome, f.err)
	}
	if !c.told.Load() {
		c.done(c.outcome, c.err)
	}
}

func (p *Processor) giveUp(calls []*call, err error) {
	for _, c := range calls {
		c.outcome, c.err = Outcome{}, err
		p.answer(c)
	}
}

// sync waits until every flight has been dealt with and returns those whose
// append failed, or that came after one.
func (p *Processor) sync() []*flight {
	barrier := make(chan []*flight, 1)
	p.flights <- &flight{barrier: barrier}
	return <-barrier
}

// recover deals with failed appends.
func (p *Processor) recover() error { return p.recoverFrom(p.sync()) }

// recoverFrom takes back everything that is not known to be durable, reads
// the log to its end and puts the calls back to be decided again.
func (p *Processor) recoverFrom(failed []*flight) error {
	for i := len(failed) - 1; i >= 0; i-- {
		if failed[i].commit != nil {
			p.state.Undo(failed[i].mark, failed[i].changes)
		}
		if failed[i].fork != nil {
			p.saving.Store(false)
		}
	}
	var calls []*call
	for _, f := range failed {
		calls = append(calls, f.calls...)
	}
	if err := p.catchUp(); err != nil {
		p.giveUp(append(calls, p.again...), ErrStopped)
		p.again = nil
		return err
	}
	var again []*call
	tries := 0
	for _, c := range calls {
		p.forget(c)
		c.tries++
		tries = max(tries, c.tries)
		if c.tries >= appendTries {
			p.giveUp([]*call{c}, ErrLogUnavailable)
			continue
		}
		again = append(again, c)
	}
	p.again = append(again, p.again...)
	if tries > 1 {
		time.Sleep(time.Duration(tries) * retryPause) // the log needs a moment
	}
	return nil
}

// catchUp folds what the log holds beyond the State. While the log cannot be
// reached it tries again; a log that is wrong is an error.
func (p *Processor) catchUp() error {
	wait, began, warned := firstCatchUp, time.Now(), time.Time{}
	p.owes(began)
	for {
		refused := p.refusal()
		err := refused
		if err == nil {
			err = p.readTail()
		}
		if err == nil || isLogBroken(err) {
			return err
		}
		if refused != nil || p.opts.AnswerWithin > 0 && time.Since(began) >= outage {
			p.tellWaiting(fmt.Errorf("%w: %w", ErrLogUnavailable, err), everyone)
		}
		if time.Since(warned) >= warnEvery {
			p.opts.Logger.Warn("the log cannot be read; trying again", "error", err)
			warned = time.Now()
		}
		select {
		case <-time.After(wait):
		case <-p.quit:
			return fmt.Errorf("%w while the log could not be read: %w", ErrStopped, err)
		}
		wait = min(2*wait, lastCatchUp)
	}
}

// catchUp waits between tries, longer each time, and says so now and then.
const (
	firstCatchUp = 10 * time.Millisecond
	lastCatchUp  = 250 * time.Millisecond
	warnEvery    = 5 * time.Second
)

// isLogBroken tells a log that is wrong from one that is out of reach.
func isLogBroken(err error) bool {
	for _, broken := range []error{
		ledger.ErrChain, ledger.ErrCorrupt, ledger.ErrInvariant, ledger.ErrLogBehind, ledger.ErrLogGap, errProjection,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// errProjection: the read models could not be written.
var errProjection = errors.New("commands: the read models cannot be written")

const (
	readTailTimeout = 30 * time.Second
	// closingRead is how much longer the log may be read after Close.
	closingRead = 2 * time.Second
)

func (p *Processor) readTail() error {
	ctx, cancel := context.WithTimeout(context.Background(), readTailTimeout)
	defer cancel()
	go func() {
		select {
		case <-p.quit:
			time.AfterFunc(closingRead, cancel)
		case <-ctx.Done():
		}
	}()
	last, err := p.log.Last(ctx)
	if err != nil {
		return err
	}
	if last < p.state.Head().Sequence {
		return fmt.Errorf("%w: it ends at %d, but %d was durable", ledger.ErrLogBehind, last, p.state.Head().Sequence)
	}
	err = ledger.ReadCommits(ctx, p.log, p.state.Head(), last, func(c *ledger.Commit) error {
		changes, err := p.state.Fold(c)
		if err != nil {
			return err
		}
		if c.Sequence <= p.proj.Checkpoint().Sequence {
			return nil // it was folded before an answer to it failed
		}
		if err := p.proj.Fold(c, changes); err != nil {
			return fmt.Errorf("%w: %w", errProjection, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.passOver(last)
	return nil
}

// passOver goes on after entries at the end of the log that are not ours.
func (p *Processor) passOver(last uint64) {
	if p.state.Next() > last {
		return
	}
	p.opts.Logger.Error("somebody else has written into the log; what is no commit of this ledger is passed over. Find out who can publish there",
		"after", p.state.Head().Sequence, "last", last)
	p.state.PassOver(last)
}

// stop answers everything that is still waiting.
func (p *Processor) stop(err error) {
	p.mu.Lock()
	p.closed = true
	p.failure = err
	p.mu.Unlock()
	if err != nil {
		p.opts.Logger.Error("the writer has stopped", "error", err)
	}
	p.giveUp(p.again, ErrStopped)
	p.mu.Lock()
	var left []*call
	for _, c := range p.pending {
		left = append(left, c)
	}
	p.mu.Unlock()
	p.giveUp(left, ErrStopped)
	for {
		select {
		case c := <-p.queue:
			p.giveUp([]*call{c}, ErrStopped)
		default:
			return
		}
	}
}
