// Package cluster lets several servers, its replicas, serve one ledger. One of
// them leads: its writer alone decides commands. The others follow: they fold
// what the log takes, answer reads, pass commands on to the leader, and are
// ready to lead. The files are: election and lease, who leads; follow, what
// the others do; route and fresh, how commands and questions find the leader;
// peers, what replicas tell each other; status, who they are; wedge, a log that
// does not say that it is ill; arrange, which servers lead the streams.
//
// The log alone decides what happened: every append names the one sequence it
// may have, so that no two leaders can both be taken. What leaves no record
// (rejections, dry runs, reads) is safe by these rules:
//
//  1. A leader has a lease: a value in a replicated bucket. It is renewed on the
//     condition that nobody else changed it, and is valid for Lease from before
//     the renewal was sent. While the bucket has no quorum, the leader may begin
//     another term of its own in the log instead, which counts as a renewal.
//  2. Nobody takes the lease over who has not waited Lease, and a tenth of it,
//     since it saw the last renewal, be it in the bucket or in the log; and it
//     takes it over on the condition that there was no other renewal. Then it
//     begins a term: it appends a record to the end of the log. If it finds
//     another's term there instead, it has to wait again.
//  3. So a valid lease means that no other term had begun: clocks of two replicas
//     would have to differ in speed by a tenth for a leader to answer what is not
//     so any more. Clocks are those that count the time since boot, while a
//     machine sleeps, too; what time it is does not matter.
//  4. A leader answers what left no record once it has seen its lease valid after
//     it decided. A process that was stopped looks after it goes on again.
//  5. A leader that reads another's term in the log, or finds another's name on
//     the lease, leads no more, and says so to everybody who waits for it.
//  6. A replica that follows answers reads when it has folded what the leader
//     had answered when the read came. The leader says that on its valid lease.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
)

// Defaults of Config.
const (
	DefaultLease = 3 * time.Second
	DefaultLimit = 10 * time.Second
)

// Models are the read models of a replica.
type Models interface {
	writer.ReadModels
	// Changed is closed with the next commit that is folded.
	Changed() <-chan struct{}
}

// Config is what a replica needs.
type Config struct {
	// Name tells the replicas apart; no two may have the same.
	Name string
	// HTTP is where clients reach this one, to be shown.
	HTTP string
	// Version of the program, to be shown.
	Version string
	// Conn leads to the other replicas, as somebody who may publish and
	// subscribe on Subjects.
	Conn *nats.Conn
	// Log is the log, and Values where replicas agree on who leads.
	Log    *jetstream.Log
	Reader ledger.Log
	Values *jetstream.Values
	Models Models
	// Lease is how long a leader may be silent; DefaultLease if 0.
	Lease time.Duration
	// Limit is how long a command or a read waits for a leader; DefaultLimit if 0.
	Limit time.Duration
	// Near reports whether the log's stream is led by this replica's own NATS
	// server; nil: it has none.
	Near func() bool
	// Whole reports whether this replica's own NATS server holds what the leaders
	// of its streams have, and is not catching up; nil: it has none.
	Whole func() bool
	// Unfit, if set, says why another replica should lead if one can, such as a
	// full disk; or nil.
	Unfit func() error
	// Lazy: this replica's own NATS server does not sync every write.
	Lazy bool
	// Unsafe, if set, says why what this replica acknowledges may be lost.
	Unsafe func() []string
	// SaveSnapshot, if set, is given a State now and then, on another goroutine.
	SaveSnapshot    func(*ledger.State)
	SnapshotRecords int
	SnapshotAge     time.Duration
	Logger          *slog.Logger
}

// Replica is one of the servers of a ledger. It implements commands.Starter
// and commands.Freshness.
type Replica struct {
	cfg      Config
	instance ledger.UUID
	clock    func() time.Duration

	elected  chan *Term
	failed   chan error
	leading  atomic.Pointer[Term] // whose writer decides; nil: another replica leads, or none
	view     leaderView
	follower atomic.Pointer[follower] // nil while it leads
	fresh    questions
	peers    peers
	lacks    atomic.Int64 // since when it lacks commits that it has heard of; since boot

	ctx   context.Context
	end   context.CancelFunc
	ended sync.WaitGroup
}

// Start begins to follow, from a State at some commit of the log, and to stand
// for election.
func Start(cfg Config, state *ledger.State) (*Replica, error) {
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Limit == 0 {
		cfg.Limit = DefaultLimit
	}
	r := &Replica{
		cfg: cfg, instance: commands.NewID(), clock: sinceBoot,
		elected: make(chan *Term), failed: make(chan error, 1),
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.view.changed = make(chan struct{})
	r.follow(state)
	if err := r.listen(); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	r.ended.Go(r.stand)
	r.ended.Go(r.register)
	r.ended.Go(r.findNamesake)
	return r, nil
}

// Stop ends all that it does. It must not lead.
func (r *Replica) Stop() error {
	r.end()
	r.ended.Wait()
	if f := r.follower.Swap(nil); f != nil {
		f.stop()
	}
	return r.peers.close()
}

// Elected passes on a term each time that this replica is to lead.
func (r *Replica) Elected() <-chan *Term { return r.elected }

// Failed says why this replica cannot go on.
func (r *Replica) Failed() <-chan error { return r.failed }

func (r *Replica) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// Term is the time in which this replica leads: Begin starts it, Resign ends it.
// The writer's Options.Leadership is the Term.
type Term struct {
	*tenure
	r      *Replica
	state  *ledger.State
	writer *writer.Writer
	resign chan string // who is to lead next; somebody asks the term to end
	serves []*nats.Subscription
	renews sync.WaitGroup
	// revision of the lease when it was renewed last, set when that has ended.
	revision atomic.Uint64
	stop     context.CancelFunc
	number   atomic.Uint64 // of the term
	level    atomic.Uint64 // of features, as the term began
	yields   atomic.Bool   // it is about to end
	wedged   atomic.Bool   // the log says that it is well, and takes nothing
}

// State is what the writer of the term begins with.
func (t *Term) State() *ledger.State { return t.state }

// Asked passes on the wish that another replica, or any if it is empty, leads.
func (t *Term) Asked() <-chan string { return t.resign }

// Landed is the writer's Options.Landed: it tells the others of a commit.
func (t *Term) Landed(encoded []byte) { t.r.announce(encoded) }

// Begin begins the term with a record in the log, decided by its writer, and
// has commands and questions come here.
func (t *Term) Begin(ctx context.Context, w *writer.Writer) error {
	t.writer = w
	if err := t.confirm(ctx); err != nil {
		return err
	}
	if err := t.serve(); err != nil {
		return err
	}
	t.r.leading.Store(t)
	t.r.hail(t, false, "")
	t.r.ended.Go(t.hailing)
	t.r.ended.Go(t.watchLog)
	if t.r.cfg.Near != nil {
		t.r.ended.Go(t.arranging)
	}
	return nil
}

// confirm appends a term to the log, which is proof that nobody else leads.
func (t *Term) confirm(ctx context.Context) error {
	level, err := t.r.commonLevel(ctx)
	if err != nil {
		return err
	}
	before := t.clock()
	outcome, err := t.writer.Submit(ctx, commands.Submission{
		ID: commands.NewID(), Actor: "allot",
		Command: &commands.BeginTerm{Leader: t.r.cfg.Name, Instance: t.instance, Level: level},
	})
	if err != nil {
		return err
	}
	if outcome.Rejection != nil {
		return fmt.Errorf("cluster: a term cannot begin: %s", outcome.Rejection)
	}
	t.extend(before)
	state, err := t.writer.Fork(ctx)
	if err != nil {
		return err
	}
	t.level.Store(level)
	t.number.Store(state.Term().Number)
	return nil
}

// Close ends what takes commands and questions here; the writer may still
// answer what it has.
func (t *Term) Close() {
	t.r.leading.CompareAndSwap(t, nil)
	for _, sub := range t.serves {
		_ = sub.Unsubscribe() // the connection may be gone
	}
	t.serves = nil
}

// Resign ends the term, after its writer has stopped, gives the lease back and
// follows again. The State is the writer's at its end.
func (t *Term) Resign(state *ledger.State, successor string) {
	t.Close()
	t.lose()
	t.stop()
	t.renews.Wait()
	t.r.release(t, successor)
	t.r.follow(state)
	t.r.hail(t, true, successor)
}

// Fork returns a copy of the State at some durable commit.
func (r *Replica) Fork(ctx context.Context) (*ledger.State, error) {
	if t := r.leading.Load(); t != nil {
		if state, err := t.writer.Fork(ctx); !again(err) {
			return state, err
		}
	}
	if f := r.follower.Load(); f != nil {
		return f.fork(ctx)
	}
	return nil, commands.ErrNotLeading
}
