// Package leading lets several servers, its replicas, serve one ledger. One of
// them leads: its writer alone decides commands. The others follow: they fold
// what the log takes, answer reads, pass commands on to the leader, and are ready
// to lead. The files are: election and lease (who leads), follow (what
// followers do), route and fresh (how commands and questions
// find the leader), peers (messages to and from the leader), standing (what this
// replica is now), and watch (what a leader looks after: a log that fails
// silently, whether it should lead, and which servers lead the streams). Who the
// replicas are is known to package members.
//
// The log alone decides what happened: every append names the one sequence that
// it may get, so no two leaders can both append. Answers that leave no record
// (rejections, dry runs, reads) are safe by these rules:
//
//  1. A leader has a lease: a value in a replicated bucket. It renews the lease
//     on the condition that no other replica changed it. The lease is valid for
//     Lease from before the renewal was sent. While the bucket has no quorum,
//     the leader may begin another term of its own in the log instead, which
//     counts as a renewal.
//  2. A replica takes the lease over only after it has waited Lease, and a
//     tenth of it, since it saw the last renewal, in the bucket or in the log,
//     and only on the condition that there was no other renewal. Then it begins
//     a term: it appends a record to the end of the log. If it finds another
//     replica's term there instead, it has to wait again.
//  3. So a valid lease means that no other term has begun. For a leader to
//     answer what is no longer true, the clocks of two replicas would have to
//     differ in speed by a tenth. These clocks count the time since boot,
//     including the time in which a machine sleeps; the time of day does not
//     matter.
//  4. A leader gives an answer that left no record once it has seen its lease
//     valid after the decision. A process that was stopped looks again after it
//     goes on.
//  5. A leader that reads another replica's term in the log, or finds another
//     name on the lease, steps down, and tells all waiting requests.
//  6. A follower answers a read when it has folded everything that the leader
//     had answered when the read came. The leader says what that is, on its
//     valid lease.
//  7. A follower shows a read nothing that the leader does not know to be
//     durable: else a later read at the leader would not find it. So it folds
//     only what a leader has announced on its valid lease. What else it has read
//     in the log, as it started or tried to begin a term, up to the next term of
//     another replica, it shows once a leader knows of it. Only reads that may be
//     stale do not wait for that.
package leading

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
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/system"
	"github.com/allot-project/allot/snapshots"
)

// Defaults of Config.
const (
	DefaultLease = 3 * time.Second
	DefaultLimit = 10 * time.Second
)

// Models are the read models of a replica.
type Models interface {
	writer.ReadModels
	// Changed returns a channel that is closed with the next folded commit.
	Changed() <-chan struct{}
}

// Config configures a replica.
type Config struct {
	// Name identifies the replica; no two may have the same.
	Name string
	// HTTP is where clients reach this replica, for display.
	HTTP string
	// Copies is HOST:PORT where this replica gives copies of State and read models;
	// "": it gives none.
	Copies string
	// Version of the program, for display.
	Version string
	// Conn leads to the other replicas, with the permission to publish and
	// subscribe on members.Subjects.
	Conn *nats.Conn
	// Log is the log, and Values are where replicas agree on the leader.
	Log    *jetstream.Log
	Values *jetstream.Values
	Models Models
	// Lease is how long a leader may be silent; 0: DefaultLease.
	Lease time.Duration
	// Limit is how long a command or a read waits for a leader; 0: DefaultLimit.
	Limit time.Duration
	// Near reports whether this replica's own NATS server leads the log's stream;
	// nil: it has no server of its own.
	Near func() bool
	// Whole reports whether this replica's own NATS server holds everything that
	// the leaders of its streams have, and is not catching up; nil: it has no
	// server of its own.
	Whole func() bool
	// Forget is that of members.Group.
	Forget func(ctx context.Context, name string) error
	// Unfit, if set, returns why another replica should lead if one can, such as
	// a full disk; or nil.
	Unfit func() error
	// Lazy: this replica's own NATS server does not sync every write.
	Lazy bool
	// Snapshots, if set, is given a State when one is due.
	Snapshots *snapshots.Schedule
	// Carrying, if set, is called when a traced command is passed on to the
	// leader. It returns the trace to pass on, and what is called with the result.
	Carrying func(*commands.Trace) (*commands.Trace, func(error))
	Logger   *slog.Logger
}

// Replica is one of the servers of a ledger. It implements commands.Starter and
// commands.Freshness.
type Replica struct {
	cfg      Config
	instance ledger.UUID
	clock    func() time.Duration
	group    *members.Group
	bucket   leaseBucket

	elected  chan *Term
	failed   chan error
	leading  atomic.Pointer[Term] // the term whose writer decides; nil: another replica leads, or none
	view     leaderView
	follower atomic.Pointer[follower] // nil while it leads
	fresh    questions
	hears    []*nats.Subscription // to what the others say
	lacks    atomic.Int64         // since when it lacks commits that were announced; since boot

	ctx   context.Context
	end   context.CancelFunc
	ended sync.WaitGroup
}

// Start starts to follow, from a State at some commit of the log, and to stand
// for election.
func Start(cfg Config, state *ledger.State) (*Replica, error) {
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Limit == 0 {
		cfg.Limit = DefaultLimit
	}
	r := &Replica{
		cfg: cfg, instance: commands.NewID(), clock: system.SinceBoot,
		bucket: leaseBucket{cfg.Values}, elected: make(chan *Term), failed: make(chan error, 1),
	}
	r.group = &members.Group{
		Name: cfg.Name, Instance: r.instance, Conn: cfg.Conn, Log: cfg.Log, Values: cfg.Values, Own: r.own,
		Forget: cfg.Forget, Logger: cfg.Logger,
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.view.changed = make(chan struct{})
	r.follow(state)
	if err := r.listen(); err != nil {
		_, stopped := r.Stop()
		return nil, errors.Join(err, stopped)
	}
	r.ended.Go(r.campaign)
	r.ended.Go(func() { r.group.Register(r.ctx, members.RegisterEvery) })
	r.ended.Go(func() {
		if err := r.group.FindNamesake(r.ctx); err != nil {
			r.fail(err)
		}
	})
	return r, nil
}

// Stop ends the replica, which must not lead. It returns the State that it has
// reached, which is nil if it did not follow.
func (r *Replica) Stop() (*ledger.State, error) {
	r.end()
	r.ended.Wait()
	var state *ledger.State
	if f := r.follower.Swap(nil); f != nil {
		state = f.stop()
	}
	var errs []error
	for _, sub := range r.hears {
		if err := sub.Unsubscribe(); !errors.Is(err, nats.ErrConnectionClosed) {
			errs = append(errs, err)
		}
	}
	return state, errors.Join(errs...)
}

// Group is the replicas of the ledger.
func (r *Replica) Group() *members.Group { return r.group }

// Elected delivers a term each time that this replica is to lead.
func (r *Replica) Elected() <-chan *Term { return r.elected }

// Failed delivers the reason why this replica cannot go on.
func (r *Replica) Failed() <-chan error { return r.failed }

func (r *Replica) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// Term is the time in which this replica leads. Begin starts it, Open lets
// clients in, Resign ends it. The Term is the writer's Options.Leadership.
type Term struct {
	*leaseHolder
	r      *Replica
	state  *ledger.State
	writer *writer.Writer
	resign chan string // the replica that is to lead next, when the term is asked to end
	serves []*nats.Subscription
	renews sync.WaitGroup
	// revision of the lease's last renewal, set when renewing has ended
	revision atomic.Uint64
	stop     context.CancelFunc
	number   atomic.Uint64 // number of the term
	level    atomic.Uint64 // level of features at the beginning of the term
	yields   atomic.Bool   // the term is about to end
	wedged   atomic.Bool   // the log says that it is well, but takes nothing
}

// State returns the State that the writer of the term begins with.
func (t *Term) State() *ledger.State { return t.state }

// Asked delivers the request that another replica lead; any if the name is empty.
func (t *Term) Asked() <-chan string { return t.resign }

// Landed is the writer's Options.Landed: it announces a commit to the others.
func (t *Term) Landed(encoded []byte) { t.r.announce(encoded) }

// Begin begins the term with a record in the log, decided by the term's writer.
// It deposes the former leader.
func (t *Term) Begin(ctx context.Context, w *writer.Writer) error {
	t.writer = w
	return t.confirm(ctx)
}

// Open takes commands and questions from then on. It comes after Begin, and
// after whatever commands rely on: a ledger that has just begun knows no
// resource classes before they are recorded.
func (t *Term) Open() error {
	if err := t.serve(); err != nil {
		return err
	}
	t.r.leading.Store(t)
	t.r.announceLeader(t, false, "")
	t.every(announceEvery, func() { t.r.announceLeader(t, false, "") })
	t.every(upgradeEvery, t.upgrade)
	t.watchLog()
	t.watchFitness()
	t.watchStreamLeaders()
	return nil
}

// confirm appends a term to the log, which proves that no other replica leads.
func (t *Term) confirm(ctx context.Context) error {
	level, err := t.commonLevel(ctx)
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

// commonLevel returns the newest level of features that all known replicas can read.
// Without the bucket no replica can have joined, so the level in use stays.
func (t *Term) commonLevel(ctx context.Context) (uint64, error) {
	level, err := t.r.group.CommonLevel(ctx)
	if now := t.r.leading.Load(); err != nil && now != nil {
		return now.level.Load(), nil
	}
	return level, err
}

// Close takes no more commands and questions. The writer may still answer those
// that it has.
func (t *Term) Close() {
	t.r.leading.CompareAndSwap(t, nil)
	for _, sub := range t.serves {
		_ = sub.Unsubscribe() // the connection may be gone
	}
	t.serves = nil
}

// Resign ends the term after its writer has stopped, gives the lease back and
// follows again. The State is the writer's last.
func (t *Term) Resign(state *ledger.State, successor string) {
	t.Close()
	t.lose()
	t.stop()
	t.renews.Wait()
	t.r.release(t, successor)
	t.r.follow(state)
	t.r.announceLeader(t, true, successor)
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
