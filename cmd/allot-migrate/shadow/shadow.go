// Package shadow is a proxy in front of a Placement and an Allot that have the same
// contents. One of them leads: it answers clients. The other one follows: it gets every
// write that the leader has accepted, in the order in which the leader took those that
// concern the same things. The answers of both are compared.
//
// Whatever goes wrong with the follower ends in one way: the provider, consumer, class or
// trait that a write was about is missed, and brought in line with the leader later. So
// the proxy stores nothing but who leads; all else it can find out again by a comparison.
//
// Generations of consumers differ between the two, so the proxy replaces those in a write
// by those of the follower. It asks for them, because the order of writes makes any
// generation that the leader accepted equal to the one that the follower has.
package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/fair"
)

// Side is one of the two services.
type Side int

// The sides.
const (
	Placement Side = iota
	Allot
)

// Sides are both, by their names.
var Sides = map[string]Side{"placement": Placement, "allot": Allot}

// String returns the side's name.
func (s Side) String() string { return [...]string{"placement", "allot"}[s] }

// Other returns the other side.
func (s Side) Other() Side { return 1 - s }

// Peer is how to reach one side.
type Peer struct {
	URL *url.URL
	// Clients carries the requests of clients, which bring their own tokens.
	Clients http.RoundTripper
	// Writes carries their writes, each on a connection of its own. A service may end a kept
	// connection just when a write comes, and leave the write's fate unknown.
	Writes http.RoundTripper
	// Own carries the proxy's own requests.
	Own *services.Service
}

// Config is what a Shadow needs.
type Config struct {
	Peers [2]Peer // by Side
	Lead  Side
	// Remember stores who leads before that changes.
	Remember func(Side) error
	// Contents reads everything that a side has, and tells how far it is.
	Contents func(ctx context.Context, of Side, show func(done, total uint64)) (*contents.Plan, error)
	// CompareEvery is the time between two comparisons of everything; 0: only at the start.
	CompareEvery time.Duration
	// CompareReads repeats reads at the follower.
	CompareReads bool
	// QueueBytes bounds what waits for the follower; answers under way that are kept for a
	// comparison may take as much again.
	QueueBytes int64
	// SwitchWithin is how long writes may wait while the lead changes.
	SwitchWithin time.Duration
	Logger       *slog.Logger
	Bodies       *fair.Pool
}

// Limits.
const (
	maxBody = 16 << 20 // bytes of a request, as Allot takes
	// mostThings is how many consumers and providers a body may name: each may cost requests of
	// the proxy's own. A reshape names all servers of a host, and none has a thousand.
	mostThings  = 2000
	maxCompared = 4 << 20 // bytes of an answer that is compared
	// expectsFrom is from which size on a body waits until the leader asks for it, or has been
	// silent for a second. A leader that refuses a body unread ends the connection, so that
	// its answer may be lost under what is still on its way.
	expectsFrom    = 8 << 10
	leaderTimeout  = 5 * time.Minute
	followTimeout  = 30 * time.Second
	longestPause   = 2 * time.Second
	mostTries      = 6
	mostKept       = 100
	mostKeptBytes  = 4 << 10 // of each body on the page and in messages
	logEvery       = time.Second
	passingPause   = 200 * time.Millisecond
	typesSince     = 38
	versionHeader  = "OpenStack-API-Version"
	commandHeader  = "Allot-Command-Id"
	requestHeader  = "X-Openstack-Request-Id"
	dryRunQuery    = "dry_run=true"
	allotPrefix    = "Allot-"
	conflictCode   = "placement.concurrent_update"
	resyncEvery    = time.Second // how often it is looked whether everything should be compared
	retryEvery     = time.Minute // after a comparison, or a repair, that has failed
	secondsOfRetry = "1"
)

// Errors of a change of the lead.
var (
	// ErrBehind means that the follower does not have everything.
	ErrBehind = errors.New("the follower does not have everything that the leader has")
	// ErrSwitching means that the lead is changing already.
	ErrSwitching = errors.New("the lead is changing already")
)

// Shadow is the proxy. Its method Run has to run, too.
type Shadow struct {
	config      Config
	lead        atomic.Int32
	queue       *queue
	locks       locks
	gate        *gate
	lastAnswers lastAnswers
	kept        *semaphore.Weighted // bytes of answers under way
	crew        crew
	watch       watch
	metrics     metrics
	sides       sides

	changing sync.Mutex    // held while the lead changes
	pacing   atomic.Bool   // writes wait for the follower, because the lead is to change
	paced    atomic.Uint64 // what the follower has to have finished before the last of these passes
}

// New returns a proxy.
func New(config Config) *Shadow {
	s := &Shadow{
		config: config, queue: newQueue(config.QueueBytes), gate: newGate(),
		kept:    semaphore.NewWeighted(config.QueueBytes),
		metrics: newMetrics(), watch: watch{shown: Status{Began: time.Now()}, unrepaired: make(map[Resource]string)},
	}
	s.sides.peers, s.sides.watch = config.Peers, &s.watch
	s.lead.Store(int32(config.Lead))
	return s
}

// Lead returns the side that answers clients.
func (s *Shadow) Lead() Side { return Side(s.lead.Load()) }

// Run follows the leader until the context ends.
func (s *Shadow) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { s.work(ctx) })
	both.Go(func() { s.compareAll(ctx) })
	both.Wait()
}

// compareAll compares everything at the start, from time to time, and after something was missed that has no
// name. Every minute it has those things tried again that could not be brought in line.
func (s *Shadow) compareAll(ctx context.Context) {
	due, failed, tried := time.Now(), time.Time{}, time.Now()
	for {
		now := time.Now()
		// What the last one has found is brought in line first. If it were found again meanwhile, that would
		// be done twice, and raise the follower's generations more often than the leader's.
		left := s.queue.length()
		isDue := !due.IsZero() && !now.Before(due) && left.missing == 0 || left.comparison
		switch {
		case isDue && now.Sub(failed) >= retryEvery:
			if err := s.compareOnce(ctx); err != nil && ctx.Err() == nil {
				failed = time.Now()
				s.config.Logger.Warn("the contents could not be compared; it is tried again in a minute", "error", err)
				break
			}
			if due = (time.Time{}); s.config.CompareEvery > 0 {
				due = time.Now().Add(s.config.CompareEvery)
			}
		case now.Sub(tried) >= retryEvery:
			tried = now
			s.queue.miss(s.watch.failures()...)
		}
		if !pause(ctx, resyncEvery) {
			return
		}
	}
}

// compareOnce notes as missed whatever differs.
func (s *Shadow) compareOnce(ctx context.Context) (err error) {
	defer func() { s.watch.compared(err) }()
	defer s.watch.at("")
	lead, lost := s.Lead(), s.queue.length().lostSoFar
	left, err := s.contents(ctx, lead)
	if err != nil {
		return err
	}
	right, err := s.contents(ctx, lead.Other())
	if err != nil {
		return err
	}
	s.watch.anew()
	for _, d := range contents.Compare(left, right) {
		// A usage follows from allocations, and a consumer's own difference names it.
		if !strings.HasPrefix(d.Field, "usage of ") {
			s.queue.missLater(0, missed{of: Resource(d.What), ask: true})
		}
	}
	for _, u := range slices.Concat(left.Unseen, right.Unseen) {
		s.queue.missLater(0, missed{of: resource(kindUsage, u.Provider.String()), ask: true})
	}
	s.queue.foundAgain(lost)
	return nil
}

// contents reads everything that a side has. The status and the log say how far it is.
func (s *Shadow) contents(ctx context.Context, of Side) (*contents.Plan, error) {
	reading := "everything is compared: reading " + of.String()
	s.watch.at("%s", reading)
	line := cli.Lines(func(line string) { s.config.Logger.Info(reading, "read", line) })
	plan, err := s.config.Contents(ctx, of, func(done, total uint64) {
		s.watch.at("%s, %d of %d", reading, done, total)
		line(done, total)
	})
	if err != nil {
		return nil, fmt.Errorf("read the contents of %s: %w", of, err)
	}
	return plan, nil
}

// pause waits. It reports whether the context has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// SwitchTo makes a side the leader. First everything is compared. Then the follower catches up, while each
// write waits for its turn, so that clients do not outrun it. Then all writes wait until what is under way has
// come through. No write waits longer than SwitchWithin in either phase, and reads never wait.
func (s *Shadow) SwitchTo(ctx context.Context, side Side) error {
	if !s.changing.TryLock() {
		return ErrSwitching
	}
	defer s.changing.Unlock()
	if s.Lead() == side {
		return nil
	}
	// What was changed behind the proxy since the last comparison would be lost to clients.
	if err := s.compareOnce(ctx); err != nil {
		return fmt.Errorf("%w: the contents could not be compared: %w", ErrBehind, err)
	}
	defer s.watch.at("")
	s.watch.at("the follower catches up; look at the queue")
	s.paced.Store(s.queue.length().finished)
	s.pacing.Store(true)
	defer s.pacing.Store(false)
	if err := s.drained(ctx, mostBehind); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, s.config.SwitchWithin)
	defer cancel()
	s.watch.at("writes under way come to an end")
	if err := s.gate.close(within); err != nil {
		return fmt.Errorf("%w: writes under way take longer than --switch-within", ErrBehind)
	}
	defer s.gate.open()
	if err := s.drained(within, 0); err != nil {
		return err
	}
	if err := s.comparedWell(); err != nil {
		return err
	}
	if err := s.config.Remember(side); err != nil {
		return fmt.Errorf("store who leads: %w", err)
	}
	s.lead.Store(int32(side))
	s.config.Logger.Info("the lead has changed", "lead", side.String())
	return nil
}

const (
	// mostBehind is how far the follower may be behind when writes begin to wait.
	mostBehind = 20
	// finishedEach is how much the follower finishes for each write that passes meanwhile. So a
	// long queue gets shorter, and no write waits for the whole of it.
	finishedEach = 2
)

// pace lets a write wait for the follower while the lead is to change.
func (s *Shadow) pace(ctx context.Context) {
	if !s.pacing.Load() {
		return
	}
	within, cancel := context.WithTimeout(ctx, s.config.SwitchWithin)
	defer cancel()
	turn := s.paced.Add(finishedEach)
	for s.pacing.Load() {
		left := s.queue.length()
		if left.entries <= mostBehind/2 || left.finished >= turn {
			return
		}
		select {
		case <-left.changed:
		case <-within.Done():
			return
		}
	}
}

// drained waits until there is no more to do than so much.
func (s *Shadow) drained(ctx context.Context, most int) error {
	for {
		left := s.queue.length()
		missing := left.missing
		if most > 0 {
			missing -= left.generations // they are levelled while no client writes
		}
		if left.entries <= most && missing == 0 && !left.lost {
			return nil
		}
		select {
		case <-left.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d requests and %d things are still to do; look at /shadow, and try again",
				ErrBehind, left.entries, left.missing)
		}
	}
}

// comparedWell returns an error unless both sides were found, or made, equal.
func (s *Shadow) comparedWell() error {
	if status := s.watch.status(); len(status.Unrepaired) > 0 {
		return fmt.Errorf("%w: %d things could not be brought in line, such as %s: %s", ErrBehind,
			status.UnrepairedCount, status.Unrepaired[0].What, status.Unrepaired[0].Why)
	}
	return nil
}
