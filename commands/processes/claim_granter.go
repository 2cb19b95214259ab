package processes

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// ClaimGranterActor is the actor in the ClaimGranter's records.
const ClaimGranterActor = "allot:claims"

const (
	// grantsEvery is the least time between two rounds, whatever is freed.
	grantsEvery = 20 * time.Millisecond
	// triesAllEvery is after how long all waiting claims are tried though nothing was
	// seen to be freed: some preferences about other consumers come true by growth.
	triesAllEvery = 10 * time.Second
)

// Freed tells a ClaimGranter when to look: its method Folded sees each commit once
// that can be read. Without waiting claims this costs next to nothing.
type Freed struct {
	wake    chan struct{}
	watched atomic.Bool // claims wait
	freed   atomic.Bool // something was freed while they do
}

// NewFreed returns one that has seen nothing.
func NewFreed() *Freed { return &Freed{wake: make(chan struct{}, 1)} }

// Folded sees a commit's changes, once they can be read.
func (f *Freed) Folded(changes *ledger.Changes) {
	frees := f.watched.Load() && frees(changes)
	if frees {
		f.freed.Store(true)
	}
	if frees || len(changes.Waiting) > 0 {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// frees reports whether something may be possible after changes that was not
// before: anything but new consumers, and what they use.
func frees(c *ledger.Changes) bool {
	if len(c.Limits)+len(c.Parents)+len(c.Preferences)+len(c.Traits)+len(c.Classes)+len(c.Nodes) > 0 {
		return true
	}
	for _, one := range c.Consumers {
		if one.Before != nil {
			return true
		}
	}
	for _, one := range c.AggregateLimits {
		if one.Before == nil || one.After == nil || one.Before.Most != one.After.Most {
			return true
		}
	}
	return slices.ContainsFunc(c.Providers, func(one ledger.ProviderChange) bool {
		return one.Before == nil || one.After != nil && !onlyUsed(one.Before, one.After)
	})
}

// onlyUsed reports whether no more has changed of a provider than that more of it is
// used.
func onlyUsed(before, after *ledger.Provider) bool {
	if before.Parent != after.Parent || before.Root != after.Root || len(before.Inventories) != len(after.Inventories) ||
		!slices.Equal(before.Traits, after.Traits) || !slices.Equal(before.Aggregates, after.Aggregates) {
		return false
	}
	for i := range after.Inventories {
		was, is := before.Inventories[i], after.Inventories[i]
		if is.Used < was.Used {
			return false
		}
		if was.Used, was.UpdatedAt = is.Used, is.UpdatedAt; was != is {
			return false
		}
	}
	return true
}

// WaitingClaims is what the ClaimGranter reads. projector.Projector implements it.
type WaitingClaims interface {
	View() projector.View
	Command(ledger.UUID) (ledger.CommandResult, bool, error)
}

// ClaimGranterConfig are a ClaimGranter's choices.
type ClaimGranterConfig struct {
	Submit commands.Submitter
	Views  WaitingClaims
	Freed  *Freed
	Now    func() time.Time
	Logger *slog.Logger
}

// ClaimGranter tries waiting claims again when something was freed: those of the
// highest priority first, then those of the project that holds least of what they ask
// for, then the oldest. It ends the waiting of those whose time is over.
type ClaimGranter struct {
	cfg  ClaimGranterConfig
	stop context.CancelFunc
	done chan struct{}

	known  map[ledger.UUID]*waitingClaim
	newest uint64    // the sequence up to which claims were tried
	tried  time.Time // when all were
	again  bool      // not everything was answered
}

// waitingClaim is a claim that waits, as it is tried.
type waitingClaim struct {
	*projector.WaitingClaim
	claim *commands.Claim
	asks  map[string]int64 // by class
	shape string           // equal for claims of which none has a chance where another had none; empty: unlike all others
}

// StartClaimGranter starts with the claims that wait already.
func StartClaimGranter(cfg ClaimGranterConfig) *ClaimGranter {
	ctx, cancel := context.WithCancel(context.Background())
	g := &ClaimGranter{cfg: cfg, stop: cancel, done: make(chan struct{}), known: make(map[ledger.UUID]*waitingClaim)}
	go g.run(ctx)
	return g
}

// Stop ends the process. Commands that it has submitted may still be carried out.
func (g *ClaimGranter) Stop() {
	g.stop()
	<-g.done
}

func (g *ClaimGranter) run(ctx context.Context) {
	defer close(g.done)
	for ctx.Err() == nil {
		wait, err := g.round(ctx)
		if err != nil && ctx.Err() == nil {
			g.cfg.Logger.Warn("waiting claims cannot be read or decided; trying again", "error", err)
			g.again, wait = true, retryPause
		}
		if !pause(ctx, grantsEvery) {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-g.cfg.Freed.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// round ends what is over, and tries what may be possible. It returns how long to wait
// for the next round, if nothing is freed.
func (g *ClaimGranter) round(ctx context.Context) (time.Duration, error) {
	// What is freed from here on is told; what was before, the view has.
	g.cfg.Freed.watched.Store(true)
	all := g.cfg.Freed.freed.Swap(false) || g.again || g.cfg.Now().Sub(g.tried) >= triesAllEvery
	view := g.cfg.Views.View()
	waiting, err := g.waiting(view)
	if err != nil {
		return 0, err
	}
	if len(waiting) == 0 {
		g.cfg.Freed.watched.Store(false)
		g.newest, g.again = view.Sequence(), false
		return longestSleep, nil
	}
	now := g.cfg.Now()
	if all {
		g.tried = now
	}
	wait := triesAllEvery
	var tries []*waitingClaim
	for _, one := range waiting {
		switch {
		case one.Until <= now.UnixNano():
			if err := g.submit(ctx, one, &commands.ExpireClaim{Claim: one.UUID, Now: now.UnixNano()}); err != nil {
				return 0, err
			}
		case all || one.Sequence > g.newest:
			tries = append(tries, one)
			fallthrough
		default:
			wait = min(wait, time.Duration(one.Until-now.UnixNano()))
		}
	}
	if err := g.try(ctx, view, tries); err != nil {
		return 0, err
	}
	g.newest, g.again = view.Sequence(), false
	return wait, nil
}

// waiting reads the claims that wait.
func (g *ClaimGranter) waiting(view projector.View) ([]*waitingClaim, error) {
	ids, err := view.WaitingIDs()
	if err != nil {
		return nil, err
	}
	known := make(map[ledger.UUID]*waitingClaim, len(ids))
	list := make([]*waitingClaim, 0, len(ids))
	for _, id := range ids {
		one := g.known[id]
		if one == nil {
			w, found, err := view.WaitingClaim(id)
			if err != nil {
				return nil, err
			}
			if !found || w.End != nil {
				continue // it was granted a moment ago
			}
			one = newWaitingClaim(w)
		}
		known[id] = one
		list = append(list, one)
	}
	g.known = known
	return list, nil
}

func newWaitingClaim(w *projector.WaitingClaim) *waitingClaim {
	one := &waitingClaim{WaitingClaim: w, asks: make(map[string]int64)}
	claim, err := commands.ParseWaiting(w.Asked)
	if err != nil {
		return one // the decision ends its waiting
	}
	one.claim = claim
	isNew := true
	var members []commands.ClaimConsumer
	for _, consumer := range claim.For {
		if consumer.Request < len(claim.Requests) {
			for _, group := range claim.Requests[consumer.Request].Groups {
				for class, amount := range group.Resources {
					one.asks[class] += amount * int64(max(1, consumer.Count))
				}
			}
		}
		isNew = isNew && consumer.Generation == nil && !consumer.AnyGeneration
		members = append(members, commands.ClaimConsumer{Request: consumer.Request, Count: consumer.Count})
	}
	if isNew {
		if text, err := json.Marshal(&commands.Claim{
			For: members, Requests: claim.Requests, Prefer: claim.Prefer, Gang: claim.Gang,
		}); err == nil {
			one.shape = string(text)
		}
	}
	return one
}

// try tries claims in their order. What one is given counts for its project at once.
func (g *ClaimGranter) try(ctx context.Context, view projector.View, claims []*waitingClaim) error {
	if len(claims) == 0 {
		return nil
	}
	shares, err := sharesOf(view, claims)
	if err != nil {
		return err
	}
	return inOrder(shares, claims, func(one *waitingClaim) (commands.Outcome, error) { return g.grant(ctx, one) })
}

// inOrder tries claims in their order, as shares have them stand.
func inOrder(shares *shares, claims []*waitingClaim, grant func(*waitingClaim) (commands.Outcome, error)) error {
	line := &line{shares: shares}
	for _, one := range claims {
		line.list = append(line.list, inLine{one, shares.of(one)})
	}
	heap.Init(line)
	hopeless := make(map[string]bool)
	for line.Len() > 0 {
		first := heap.Pop(line).(inLine)
		if share := shares.of(first.waitingClaim); share > first.share { // its project was given something
			heap.Push(line, inLine{first.waitingClaim, share})
			continue
		}
		if first.shape != "" && hopeless[first.shape] {
			continue
		}
		outcome, err := grant(first.waitingClaim)
		if err != nil {
			return err
		}
		switch {
		case outcome.Rejection != nil && outcome.Rejection.Code == commands.CodeNoCandidates:
			hopeless[first.shape] = true
		case commands.Claimed(outcome.Events):
			shares.add(first.waitingClaim)
		}
	}
	return nil
}

func (g *ClaimGranter) grant(ctx context.Context, one *waitingClaim) (commands.Outcome, error) {
	return g.carryOut(ctx, one, commands.NewGrantClaim(one.UUID, g.cfg.Now().UnixNano(), one.claim))
}

func (g *ClaimGranter) submit(ctx context.Context, one *waitingClaim, c commands.Command) error {
	_, err := g.carryOut(ctx, one, c)
	return err
}

func (g *ClaimGranter) carryOut(ctx context.Context, one *waitingClaim, c commands.Command) (commands.Outcome, error) {
	result, known, err := g.cfg.Views.Command(one.UUID)
	if err != nil {
		return commands.Outcome{}, err
	}
	submission := commands.Submission{ID: commands.NewID(), Actor: ClaimGranterActor, Command: c}
	if known {
		submission.Cause = &result.Address
	}
	return g.cfg.Submit.Submit(ctx, submission)
}

// shares are what projects hold that have claims in line.
type shares struct {
	held   map[string]map[string]int64 // by project and class
	totals map[string]int64            // of all of these projects together, by class, when the round began
}

func sharesOf(view projector.View, claims []*waitingClaim) (*shares, error) {
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	s := &shares{held: make(map[string]map[string]int64), totals: make(map[string]int64)}
	for _, one := range claims {
		if s.held[one.Project] != nil {
			continue
		}
		held := make(map[string]int64)
		s.held[one.Project] = held
		usages, err := view.Usages(one.Project, "")
		if err != nil {
			return nil, err
		}
		for _, u := range usages {
			for _, a := range u.Amounts {
				name := classes.Name(a.Class)
				held[name] += a.Amount
				s.totals[name] += a.Amount
			}
		}
	}
	return s, nil
}

// of is how much the project holds of what a claim asks for: of each class its part of
// what all of these projects hold together, and of these the largest.
func (s *shares) of(one *waitingClaim) (share float64) {
	for class := range one.asks {
		share = max(share, float64(s.held[one.Project][class])/float64(max(1, s.totals[class])))
	}
	return share
}

func (s *shares) add(one *waitingClaim) {
	for class, amount := range one.asks {
		s.held[one.Project][class] += amount
	}
}

// line is a heap: the first is that which is tried next.
type line struct {
	shares *shares
	list   []inLine
}

type inLine struct {
	*waitingClaim
	share float64
}

func (l *line) Len() int { return len(l.list) }

func (l *line) Less(i, j int) bool {
	a, b := l.list[i], l.list[j]
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.share, b.share), cmp.Compare(a.Sequence, b.Sequence),
		a.UUID.Compare(b.UUID),
	) < 0
}

func (l *line) Swap(i, j int) { l.list[i], l.list[j] = l.list[j], l.list[i] }

func (l *line) Push(one any) { l.list = append(l.list, one.(inLine)) }

func (l *line) Pop() any {
	last := l.list[len(l.list)-1]
	l.list = l.list[:len(l.list)-1]
	return last
}
