package leading

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
)

// The leader is the holder of a lease in a bucket of JetStream. A simpler rule,
// that the server that leads the log's stream also leads here, does not work:
// that is known only if the NATS server is in the process, and what that server
// believes of itself is worth nothing while it is cut off. So the lease decides,
// and the server that leads the stream gets a head start, because commits then
// reach the stream's leader without a hop.

const (
	// leaseKey is the lease's key in the bucket.
	leaseKey = "leader"
	// look is how often followers look at the lease.
	look = 100 * time.Millisecond
	// renewals is how often a lease is renewed in its time.
	renewals = 6
	// renewAgain is the pause between two tries to renew it.
	renewAgain = 50 * time.Millisecond
	// headStart is how long servers that do not lead the stream wait for the one
	// that does.
	headStart = 500 * time.Millisecond
	// spread is how long others wait for a named successor.
	spread = time.Second
	// unfitWait is how long a replica that should not lead waits for one that
	// may.
	unfitWait = 10 * time.Second
)

// lease is the leader according to the bucket.
type lease struct {
	Leader   string      `json:"leader"`
	Instance ledger.UUID `json:"instance"`
	// Released means that the leader has given the lease back, to Successor if
	// one is named.
	Released  bool   `json:"released,omitempty"`
	Successor string `json:"successor,omitempty"`
}

// candidate is what a follower knows of the lease.
type candidate struct {
	r        *Replica
	now      lease
	revision uint64
	seen     time.Duration // when it first saw that revision
	eligible time.Duration // since when it might take the lease; 0: it may not
	judged   uint64        // number of the last term in the log, as of which it may take the lease
}

// campaign takes the lease whenever it is free.
func (r *Replica) campaign() {
	c := &candidate{r: r}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		case <-r.view.next():
		}
		if r.follower.Load() == nil {
			c.eligible = 0
			continue // this replica leads
		}
		if term := c.acquire(r.ctx); term != nil {
			r.startTerm(term, c.judged)
			c.eligible = 0
		}
	}
}

// startTerm hands a term to the part that begins writers. If another term was folded since
// the one that was judged, its leader may lead by it, and the lease is given back.
func (r *Replica) startTerm(term *Term, judged uint64) {
	f := r.follower.Swap(nil)
	term.state = f.stop()
	if last := term.state.Term(); last.Number != judged {
		r.cfg.Logger.Info("this replica does not lead: another term has begun meanwhile", "term", last.Number, "leader", last.Leader)
		term.Resign(term.state, "")
		return
	}
	select {
	case r.elected <- term:
	case <-r.ctx.Done():
		term.Resign(term.state, "")
	}
}

// acquire takes the lease if that is permitted now.
func (c *candidate) acquire(ctx context.Context) *Term {
	err := c.observe(ctx)
	if err != nil || !c.leaseFree() || !c.ready(ctx) {
		return nil
	}
	before := c.r.clock()
	mine := lease{Leader: c.r.cfg.Name, Instance: c.r.instance}
	revision, err := c.r.bucket.set(ctx, c.revision, mine)
	if err != nil {
		return nil // the next look shows the outcome
	}
	c.r.cfg.Logger.Info("this replica is to lead", "revision", revision)
	t := newLeaseHolder(c.r.instance, c.r.cfg.Lease, c.r.clock)
	t.extend(before)
	term := &Term{leaseHolder: t, r: c.r, resign: make(chan string, 1)}
	renewing, stop := context.WithCancel(context.Background())
	term.stop = stop
	term.renews.Go(func() { term.renew(renewing, revision) })
	return term
}

func (c *candidate) observe(ctx context.Context) error {
	now, revision, err := c.r.bucket.get(ctx)
	if err != nil {
		return err
	}
	if revision > c.revision {
		c.now, c.revision, c.seen = now, revision, c.r.clock()
	}
	return nil
}

// leaseFree reports whether the lease is free, by the rules that keep its holder's
// answers true.
//
// A leader that does not reach the bucket goes on by a term in the log. So a lease that
// was given back is free at once only if its last holder began the last term there too:
// if it never came to begin one, the leader of that term may have renewed it just now.
func (c *candidate) leaseFree() bool {
	now, last, length := c.r.clock(), c.r.view.folded.Load(), c.r.cfg.Lease+c.r.cfg.Lease/10
	c.judged = last.Number
	silent := last.Number == 0 || now-last.seen >= length
	switch {
	case c.revision == 0:
		return c.since(now)
	case last.Instance != c.now.Instance && !silent: // the leader of the last term may lead yet
	case c.now.Instance == c.r.instance && !c.now.Released:
		return true // a term that did not come to begin
	case c.now.Released && c.now.Successor == c.r.cfg.Name:
		return true
	case c.now.Released && (c.now.Successor == "" || now-c.seen >= spread):
		return c.since(now)
	case silent && now-c.seen >= length:
		return c.since(now)
	}
	c.eligible = 0
	return false
}

func (c *candidate) since(now time.Duration) bool {
	if c.eligible == 0 {
		c.eligible = now
	}
	return true
}

// ready reports whether this replica should lead: it has folded everything that was
// announced, and no other replica is in a better position. What else the log holds, its
// writer reads before it begins the term.
func (c *candidate) ready(ctx context.Context) bool {
	f := c.r.follower.Load()
	if f == nil || !f.current.Load() {
		return false
	}
	if c.eligible > 0 && c.r.clock()-c.eligible < unfitWait && c.r.notEligible() != nil {
		return false
	}
	if c.eligible == 0 || c.r.cfg.Near == nil || c.r.cfg.Near() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	peers, err := c.r.cfg.Log.Peers(ctx)
	if err != nil || peers.Leader == "" {
		return false // no replica could append
	}
	return c.r.clock()-c.eligible >= headStart
}

// leaseBucket is the bucket, as far as it holds the lease.
type leaseBucket struct{ values *jetstream.Values }

func (b leaseBucket) get(ctx context.Context) (l lease, revision uint64, err error) {
	value, revision, err := b.values.Get(ctx, leaseKey)
	if err == nil && revision > 0 {
		err = json.Unmarshal(value, &l)
	}
	if err != nil {
		return lease{}, 0, fmt.Errorf("cluster: the lease: %w", err)
	}
	return l, revision, nil
}

func (b leaseBucket) set(ctx context.Context, revision uint64, l lease) (uint64, error) {
	value, err := json.Marshal(l)
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	return b.values.Set(ctx, leaseKey, revision, value)
}

// renew keeps the lease until it is lost, or ctx ends.
func (t *Term) renew(ctx context.Context, revision uint64) {
	mine := lease{Leader: t.r.cfg.Name, Instance: t.instance}
	every := t.length / renewals
	wait := every
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			t.revision.Store(revision)
			return
		}
		before := t.clock()
		next, err := t.r.bucket.set(ctx, revision, mine)
		switch {
		case err == nil:
			t.extend(before)
			revision, wait = next, every
		case errors.Is(err, jetstream.ErrRevision):
			now, at, err := t.r.bucket.get(ctx)
			if err == nil && at > revision && now.Instance != t.instance {
				t.r.cfg.Logger.Warn("another replica has taken the lease", "leader", now.Leader)
				t.lose()
				return
			}
			if err == nil && at > revision {
				revision = at // an earlier try, whose answer was lost
			}
			wait = renewAgain
		default:
			wait = renewAgain + rand.N(renewAgain)
			t.confirmLate(ctx)
		}
	}
}

// confirmLate begins another term in the log if the bucket does not answer and
// the lease is about to end.
func (t *Term) confirmLate(ctx context.Context) {
	if left, _ := t.left(); left > t.length/2 || t.r.leading.Load() != t {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, t.length)
	defer cancel()
	if err := t.confirm(ctx); err != nil {
		t.r.cfg.Logger.Debug("the lease is not renewed in the log, either", "error", err)
	}
}

// release gives the lease back, if this replica has it yet.
func (r *Replica) release(t *Term, successor string) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Lease)
	defer cancel()
	back := lease{Leader: r.cfg.Name, Instance: t.instance, Released: true, Successor: successor}
	revision := t.revision.Load()
	for {
		_, err := r.bucket.set(ctx, revision, back)
		if err == nil {
			return
		}
		if errors.Is(err, jetstream.ErrRevision) {
			// It may have been renewed by a try whose answer was not waited for. This replica
			// would take it for its own, and lead again at once.
			now, at, lookErr := r.bucket.get(ctx)
			if lookErr == nil && at > revision && (now.Instance != t.instance || now.Released) {
				return // another one has it, or it was given back by a try whose answer was lost
			}
			if lookErr == nil && at > revision {
				revision = at
				continue
			}
		}
		select {
		case <-time.After(renewAgain):
		case <-ctx.Done():
			r.cfg.Logger.Warn("the lease was not given back, and runs out", "error", err)
			return
		}
	}
}
