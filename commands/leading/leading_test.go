package leading_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// member is one replica with all its parts, in the test's process.
type member struct {
	*leading.Replica
	name   string
	ns     *embedded.Server
	log    *jetstream.Log
	views  *projector.Projector
	writer *writer.Writer // guarded by mu
	mu     sync.Mutex
	quit   chan struct{}
	idle   sync.WaitGroup
	conns  []*nats.Conn
	// late, if set, holds up what the writer hears of its appends until it is closed.
	late atomic.Pointer[chan struct{}]
}

// lateLog is a log whose acknowledgements are late.
type lateLog struct {
	ledger.Log
	m *member
}

func (l lateLog) Append(sequence uint64, encoded []byte, done func(error)) {
	l.Log.Append(sequence, encoded, func(err error) {
		if late := l.m.late.Load(); late != nil {
			<-*late
		}
		done(err)
	})
}

// group is three of them.
type group struct {
	t       testing.TB
	members []*member
}

func startGroup(t testing.TB, change func(i int, cfg *leading.Config, m *member)) *group {
	t.Helper()
	g := &group{t: t}
	var routes []string
	for range 3 {
		routes = append(routes, ledgertest.FreeAddress(t))
	}
	dir := t.TempDir()
	var starting sync.WaitGroup
	for i := range 3 {
		m := &member{name: fmt.Sprint(i + 1), quit: make(chan struct{})}
		g.members = append(g.members, m)
		starting.Go(func() {
			m.ns = commandstest.Must(embedded.Start(t.Context(), embedded.Config{
				StoreDir: filepath.Join(dir, m.name, "log"), LazySync: true,
				Cluster: &embedded.Cluster{Member: m.name, Listen: routes[i], Members: routes, Secret: "a secret of this test"},
			}))
		})
	}
	starting.Wait()
	for i, m := range g.members {
		m.open(t, filepath.Join(dir, m.name), i == 0, func(cfg *leading.Config) {
			if change != nil {
				change(i, cfg, m)
			}
		})
	}
	t.Cleanup(func() {
		for _, m := range g.members {
			m.stop(t)
		}
	})
	return g
}

func (m *member) open(t testing.TB, dir string, mayCreate bool, change func(*leading.Config)) {
	t.Helper()
	connect := func(open func() (*nats.Conn, error)) *nats.Conn {
		m.conns = append(m.conns, commandstest.Must(open()))
		return m.conns[len(m.conns)-1]
	}
	nc := connect(m.ns.Connect)
	values := m.openLog(t, nc, mayCreate)
	logger := slog.New(slog.DiscardHandler)
	m.views = commandstest.Must(projector.Open(filepath.Join(dir, "readmodel"), logger))
	snaps := commandstest.Must(snapshots.Open(filepath.Join(dir, "snapshots"), logger))
	state := commandstest.Must(writer.Restore(t.Context(), m.log, snaps, m.views, nil, nil, nil))
	cfg := leading.Config{
		Name: m.name, Conn: connect(m.ns.ConnectReplica), Log: m.log, Values: values, Models: m.views,
		Near: m.ns.Leads, Logger: logger, Lease: 1500 * time.Millisecond,
	}
	change(&cfg)
	m.Replica = commandstest.Must(leading.Start(cfg, state))
	m.idle.Go(func() { m.lead(t) })
}

// openLog opens the log once the servers have found each other.
func (m *member) openLog(t testing.TB, nc *nats.Conn, mayCreate bool) *jetstream.Values {
	t.Helper()
	var values *jetstream.Values
	var err error
	ledgertest.WaitFor(t, "the log to open", func() bool {
		m.log, err = jetstream.Open(t.Context(), nc, jetstream.Config{
			Replicas: 3, MayCreate: mayCreate, AckTimeout: 2 * time.Second, Patience: time.Second,
		})
		if err == nil {
			cfg := jetstream.ValuesConfig{Replicas: 3, Timeout: 250 * time.Millisecond}
			values, err = jetstream.OpenValues(t.Context(), nc, cfg)
		}
		return err == nil
	}, func() any { return err })
	return values
}

// lead handles the replica's terms as a server does.
func (m *member) lead(t testing.TB) {
	for {
		select {
		case <-m.quit:
			return
		case err := <-m.Failed():
			t.Errorf("replica %s: %v", m.name, err)
			return
		case term := <-m.Elected():
			m.serve(t, term)
		}
	}
}

func (m *member) serve(t testing.TB, term *leading.Term) {
	options := writer.Options{
		Now: time.Now, Landed: term.Landed, AnswerWithin: 10 * time.Second, Leadership: term,
	}
	w := writer.New(lateLog{m.log, m}, m.views, term.State(), options)
	successor, err := m.leadAs(term, w)
	if err != nil && !commands.Passing(err) {
		t.Errorf("replica %s: %v", m.name, err)
	}
	m.set(nil)
	term.Close()
	if err := w.Close(); err != nil && !commands.Passing(err) {
		t.Errorf("replica %s: %v", m.name, err)
	}
	if state := w.State(); state != nil {
		term.Resign(state, successor)
	}
}

// leadAs begins a term, and leads until it ends, or another replica is to lead.
func (m *member) leadAs(term *leading.Term, w *writer.Writer) (successor string, err error) {
	if err := term.Begin(context.Background(), w); err != nil {
		return "", err
	}
	names := commandstest.Must(commands.NewAddStandardNames(commands.NewID()))
	if _, err := w.Submit(context.Background(), submission(names)); err != nil {
		return "", err
	}
	if err := term.Open(); err != nil {
		return "", err
	}
	m.set(w)
	select {
	case <-m.quit:
	case <-w.Done():
	case successor = <-term.Asked():
	}
	return successor, nil
}

func submission(c commands.Command) commands.Submission {
	return commands.Submission{ID: commands.NewID(), Actor: "test", Command: c}
}

func trait(name string) *commands.CreateTrait { return &commands.CreateTrait{Name: "CUSTOM_" + name} }

func (m *member) set(w *writer.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writer = w
}

func (m *member) get() *writer.Writer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writer
}

// stop ends a replica in order.
func (m *member) stop(t testing.TB) {
	t.Helper()
	if m.quit == nil {
		return
	}
	close(m.quit)
	m.idle.Wait()
	m.quit = nil
	if _, err := m.Stop(); err != nil {
		t.Error(err)
	}
	for _, nc := range m.conns {
		nc.Close()
	}
	m.ns.Shutdown()
	ledgertest.OK(t, m.views.Close())
}

// leader waits until one of the running replicas leads.
func (g *group) leader() (leader *member) {
	g.t.Helper()
	ledgertest.WaitFor(g.t, "a leader", func() bool {
		i := slices.IndexFunc(g.members, func(m *member) bool { return m.quit != nil && m.get() != nil })
		if i >= 0 {
			leader = g.members[i]
		}
		return leader != nil
	})
	return leader
}

// others are the running replicas that do not lead.
func (g *group) others() (list []*member) {
	leader := g.leader()
	for _, m := range g.members {
		if m != leader && m.quit != nil {
			list = append(list, m)
		}
	}
	return list
}

func (m *member) submit(t testing.TB, c commands.Command) commands.Outcome {
	t.Helper()
	outcome, err := m.Submit(t.Context(), submission(c))
	if err != nil {
		t.Fatalf("replica %s: %s: %v", m.name, commands.NameOf(c), err)
	}
	return outcome
}

func (m *member) accept(t testing.TB, c commands.Command) {
	t.Helper()
	if outcome := m.submit(t, c); outcome.Rejection != nil {
		t.Fatal(outcome.Rejection)
	}
}

// submitLate submits a command whose answer the test waits for later.
func (m *member) submitLate(ctx context.Context) <-chan error {
	answered := make(chan error, 1)
	go func() {
		_, err := m.Submit(ctx, submission(trait("LATE")))
		answered <- err
	}()
	return answered
}

// TestLeaderIsReplaced, in order and by a loss, and the log says who led when.
func TestLeaderIsReplaced(t *testing.T) {
	g := startGroup(t, nil)
	first := g.leader()
	next := g.others()[0]
	ledgertest.OK(t, g.others()[1].StepDown(t.Context(), next.name))
	ledgertest.WaitFor(t, "the replica that was named to lead", func() bool { return next.get() != nil })
	first.accept(t, trait("AFTER"))
	state, err := first.Fork(t.Context())
	if err != nil || state.Term().Leader != next.name || state.Term().Number < 2 || state.Term().Level != ledger.Level {
		t.Errorf("term %+v, %v", state.Term(), err)
	}
	if err := next.StepDown(t.Context(), "unknown"); err == nil {
		t.Error("a replica that does not exist was to lead")
	}
	if status := first.Status(t.Context()); status.Leader != next.name || len(status.Members) != 3 ||
		status.Problem != "" {
		t.Errorf("%+v", status)
	}
}

// TestTermBegunWhileTheLeaseIsTaken: a replica that has taken the lease, which was free by the
// last term that it knew, looks again at the term that it has folded by then. If that is another
// one, its leader may lead by it, and this replica gives the lease back.
func TestTermBegunWhileTheLeaseIsTaken(t *testing.T) {
	g := startGroup(t, nil)
	leader, follower := g.leader(), g.others()[0]
	leader.submit(t, trait("BEFORE"))
	ledgertest.OK(t, follower.Fresh(t.Context()))
	state := commandstest.Must(follower.Fork(t.Context()))
	close(follower.quit) // the test takes its terms
	follower.idle.Wait()
	follower.quit = make(chan struct{})
	for judged, want := range map[uint64]bool{state.Term().Number - 1: false, state.Term().Number: true} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			follower.StartTerm(judged)
		}()
		elected := false
		select {
		case <-ended:
		case term := <-follower.Elected():
			elected = true
			term.Resign(term.State(), "")
			<-ended
		}
		if elected != want {
			t.Errorf("judged as of term %d, and folded term %d: elected is %v", judged, state.Term().Number, elected)
		}
	}
}

// TestWedgedLog: a log that is silent while its servers say that they are well raises an alarm at
// all replicas, which ends when the log goes on.
func TestWedgedLog(t *testing.T) {
	g := startGroup(t, func(_ int, cfg *leading.Config, _ *member) { cfg.Limit = time.Second })
	leader := g.leader()
	silence := make(chan struct{})
	leader.late.Store(&silence)
	answered := leader.submitLate(t.Context())
	say := func(wedged bool) {
		t.Helper()
		ledgertest.WaitFor(t, "all replicas to say the same of the log", func() bool {
			for _, m := range g.members {
				if errors.Is(m.Wedged(), leading.ErrWedged) != wedged {
					return false
				}
			}
			return true
		})
	}
	say(true)
	leader.late.Store(nil)
	close(silence)
	say(false)
	<-answered // 503 or not: the log was silent for longer than callers wait
}

// TestUnfitReplica: a replica that should not lead, as one whose disk is full, is not asked to, and
// lets another one lead that can.
func TestUnfitReplica(t *testing.T) {
	var unfit [3]atomic.Bool
	full := errors.New("the disk is full")
	g := startGroup(t, func(i int, cfg *leading.Config, _ *member) {
		cfg.Unfit = func() error {
			if unfit[i].Load() {
				return full
			}
			return nil
		}
	})
	first := g.leader()
	avoided, able := g.others()[0], g.others()[1]
	for i, m := range g.members {
		unfit[i].Store(m == first || m == avoided)
	}
	ledgertest.WaitFor(t, "the fit replica to lead", func() bool { return able.get() != nil })
	for i, m := range g.members {
		unfit[i].Store(m == avoided)
	}
	for range 2 {
		before := g.leader()
		ledgertest.OK(t, before.StepDown(t.Context(), ""))
		ledgertest.WaitFor(t, "the leader to step down", func() bool { return before.get() == nil })
		if g.leader() == avoided {
			t.Error("a replica with a full disk was asked to lead")
		}
	}
	first.accept(t, trait("BESIDE"))
}

// TestNoFollowerReadsAheadOfTheLeader: while the leader does not know that a commit is in
// the log, no replica shows it to a read that must be fresh, or that names the commit that
// it needs. Else a client could read it there, and not find it at the leader afterwards.
func TestNoFollowerReadsAheadOfTheLeader(t *testing.T) {
	g := startGroup(t, nil)
	leader := g.leader()
	leader.submit(t, trait("BEFORE"))
	late := make(chan struct{})
	release := sync.OnceFunc(func() { close(late) })
	t.Cleanup(release)
	leader.late.Store(&late)
	answered := leader.submitLate(context.Background())
	follower := g.others()[0]
	next := leader.views.Checkpoint().Sequence + 1
	ledgertest.WaitFor(t, "the commit to be in the follower's log", func() bool {
		last, err := follower.log.Last(t.Context())
		return err == nil && last >= next
	})
	ledgertest.OK(t, follower.FollowAnew(t.Context()))
	if shown := follower.views.Checkpoint().Sequence; shown >= next {
		t.Errorf("a follower has folded sequence %d, and the leader %d", shown, leader.views.Checkpoint().Sequence)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := follower.Fresh(ctx)
	if shown := follower.views.Checkpoint().Sequence; err == nil && shown >= next {
		t.Fatalf("a follower shows sequence %d, and the leader %d", shown, leader.views.Checkpoint().Sequence)
	}
	ledgertest.OK(t, leader.Fresh(t.Context()))
	release()
	ledgertest.OK(t, <-answered)
	ledgertest.OK(t, follower.Fresh(t.Context()))
	if shown := follower.views.Checkpoint().Sequence; shown < next {
		t.Errorf("a follower shows sequence %d after a fresh read, and not the acknowledged %d", shown, next)
	}
}
