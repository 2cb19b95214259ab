package processes

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
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
	// maxNoted is how many changes of waiting claims are noted for a ClaimGranter. If it
	// is further behind, it reads them.
	maxNoted = 2 * commands.MaxWaitingClaims
)

// Freed tells a ClaimGranter when to look: its method Folded sees each commit once
// that can be read. Without waiting claims this costs next to nothing.
type Freed struct {
	wake    chan struct{}
	watched atomic.Bool // claims wait

	mu     sync.Mutex
	freed  freed                       // while they do, since it was taken; guarded by mu
	noted  []ledger.WaitingClaimChange // since they were taken; guarded by mu
	missed bool                        // not all were noted; guarded by mu
}

// NewFreed returns one that has seen nothing.
func NewFreed() *Freed { return &Freed{wake: make(chan struct{}, 1), missed: true} }

// Folded sees a commit's changes, once they can be read.
func (f *Freed) Folded(changes *ledger.Changes) {
	var now freed
	if f.watched.Load() {
		now.add(changes)
	}
	if now.none() && len(changes.Waiting) == 0 {
		return
	}
	f.mu.Lock()
	f.freed.join(&now)
	f.note(changes.Waiting)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// note keeps which claims wait, and wait no more, until somebody takes that.
func (f *Freed) note(changes []ledger.WaitingClaimChange) {
	if f.missed {
		return
	}
	if f.noted = append(f.noted, changes...); len(f.noted) > maxNoted {
		f.noted, f.missed = nil, true
	}
}

// take returns what was freed and noted since it was taken last. If something was
// missed, a view that is taken afterwards has it.
func (f *Freed) take() (now freed, noted []ledger.WaitingClaimChange, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, noted, missed = f.freed, f.noted, f.missed
	f.freed, f.noted, f.missed = freed{}, nil, false
	return now, noted, missed
}

// freed is what may make something possible that was not before.
type freed struct {
	all       bool                    // it may be anything
	consumers bool                    // some hold something else than before
	classes   map[ledger.ClassID]bool // of which less is used somewhere
}

func (f *freed) none() bool { return !f.all && !f.consumers && len(f.classes) == 0 }

// add finds what is freed by changes: by all but new consumers, and what they use.
func (f *freed) add(c *ledger.Changes) {
	f.all = f.all ||
		len(c.Limits)+len(c.Parents)+len(c.Preferences)+len(c.Traits)+len(c.Classes)+len(c.Nodes) > 0 ||
		slices.ContainsFunc(c.AggregateLimits, func(one ledger.AggregateLimitChange) bool {
			return one.Before == nil || one.After == nil || one.Before.Most != one.After.Most
		}) ||
		slices.ContainsFunc(c.Providers, func(one ledger.ProviderChange) bool {
			return one.Before == nil || one.After != nil && !onlyUsed(one.Before, one.After)
		})
	f.consumers = f.consumers ||
		slices.ContainsFunc(c.Consumers, func(one ledger.ConsumerChange) bool { return one.Before != nil })
	for _, one := range c.Providers {
		if f.all || one.After == nil {
			continue
		}
		for i := range one.After.Inventories {
			if one.After.Inventories[i].Used < one.Before.Inventories[i].Used {
				f.classFreed(one.After.Inventories[i].Class)
			}
		}
	}
}

func (f *freed) classFreed(class ledger.ClassID) {
	if f.classes == nil {
		f.classes = make(map[ledger.ClassID]bool)
	}
	f.classes[class] = true
}

func (f *freed) join(other *freed) {
	f.all, f.consumers = f.all || other.all, f.consumers || other.consumers
	for class := range other.classes {
		f.classFreed(class)
	}
}

// onlyUsed reports whether no more has changed of a provider than what is used of it.
func onlyUsed(before, after *ledger.Provider) bool {
	if before.Parent != after.Parent || before.Root != after.Root || len(before.Inventories) != len(after.Inventories) ||
		!slices.Equal(before.Traits, after.Traits) || !slices.Equal(before.Aggregates, after.Aggregates) {
		return false
	}
	for i := range after.Inventories {
		was, is := before.Inventories[i], after.Inventories[i]
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

	known map[ledger.UUID]*waitingClaim // that wait
	// open are those of them that anything may help, and room the others, by the classes of
	// which they wait for more.
	open   map[ledger.UUID]*waitingClaim
	room   map[string]map[ledger.UUID]*waitingClaim
	fresh  []*waitingClaim // of these, those that were not tried yet
	due    deadlines       // of these, and of some that wait no more
	missed bool            // not all that wait are known
	tried  time.Time       // when all were
	again  bool            // not everything was answered
}

// waitingClaim is a claim that waits, as it is tried.
type waitingClaim struct {
	*ledger.WaitingClaim
	claim *commands.Claim
	asks  map[string]int64 // by class
	shape string           // equal for claims of which none has a chance where another had none; empty: unlike all others
	// placed: what it asks for may have to do with more than classes and their amounts.
	placed bool
	// forRoom: it was tried, and waits for nothing but more of a class that it asks for,
	// as far as only consumers change.
	forRoom bool
}

// StartClaimGranter starts with the claims that wait already.
func StartClaimGranter(cfg ClaimGranterConfig) *ClaimGranter {
	ctx, cancel := context.WithCancel(context.Background())
	g := &ClaimGranter{cfg: cfg, stop: cancel, done: make(chan struct{}), missed: true}
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
	now, noted, missed := g.cfg.Freed.take()
	now.all = now.all || g.again || g.cfg.Now().Sub(g.tried) >= triesAllEvery
	g.missed = g.missed || missed
	view := g.cfg.Views.View()
	if err := g.learn(view, noted); err != nil {
		return 0, err
	}
	if len(g.known) == 0 {
		g.cfg.Freed.watched.Store(false)
		g.fresh, g.due, g.again = nil, nil, false
		return longestSleep, nil
	}
	moment := g.cfg.Now()
	wait, err := g.expire(ctx, moment)
	if err != nil {
		return 0, err
	}
	if now.all {
		g.tried = moment
	}
	tries, err := g.hopeful(view, &now)
	if err != nil {
		return 0, err
	}
	tries = slices.DeleteFunc(tries, func(one *waitingClaim) bool { return one.Until <= moment.UnixNano() })
	err = g.try(ctx, view, tries)
	for _, one := range tries {
		g.file(one)
	}
	if err != nil {
		return 0, err
	}
	g.fresh, g.again = nil, false
	return wait, nil
}

// hopeful are the claims that may get something now.
func (g *ClaimGranter) hopeful(view projector.View, now *freed) (tries []*waitingClaim, err error) {
	if now.none() {
		for _, one := range g.fresh {
			if g.known[one.UUID] == one {
				tries = append(tries, one)
			}
		}
		return tries, nil
	}
	if now.all {
		return slices.Collect(maps.Values(g.known)), nil
	}
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	helped := maps.Clone(g.open) // those that were not tried yet are among them
	for class := range now.classes {
		maps.Copy(helped, g.room[classes.Name(class)])
	}
	return slices.Collect(maps.Values(helped)), nil
}

// file puts a claim where it is found when something is freed that may help it.
func (g *ClaimGranter) file(one *waitingClaim) {
	g.unfile(one)
	if !one.forRoom {
		g.open[one.UUID] = one
		return
	}
	for class := range one.asks {
		if g.room[class] == nil {
			g.room[class] = make(map[ledger.UUID]*waitingClaim)
		}
		g.room[class][one.UUID] = one
	}
}

func (g *ClaimGranter) unfile(one *waitingClaim) {
	delete(g.open, one.UUID)
	for class := range one.asks {
		if delete(g.room[class], one.UUID); len(g.room[class]) == 0 {
			delete(g.room, class)
		}
	}
}

// learn takes over which claims wait: what was noted, or all of them if that is not
// enough.
func (g *ClaimGranter) learn(view projector.View, noted []ledger.WaitingClaimChange) error {
	if g.missed {
		if err := g.read(view); err != nil {
			return err
		}
		g.missed = false
	}
	for _, one := range noted {
		switch {
		case one.After == nil:
			if known := g.known[one.Before.UUID]; known != nil {
				delete(g.known, known.UUID)
				g.unfile(known)
			}
		case g.known[one.After.UUID] == nil:
			g.meet(one.After)
		}
	}
	return nil
}

// read reads which claims wait.
func (g *ClaimGranter) read(view projector.View) error {
	ids, err := view.WaitingIDs()
	if err != nil {
		return err
	}
	before := g.known
	g.known, g.open = make(map[ledger.UUID]*waitingClaim, len(ids)), make(map[ledger.UUID]*waitingClaim)
	g.room = make(map[string]map[ledger.UUID]*waitingClaim)
	for _, id := range ids {
		if one := before[id]; one != nil {
			g.known[id] = one
			g.file(one)
			continue
		}
		w, found, err := view.WaitingClaim(id)
		if err != nil {
			return err
		}
		if found && w.End == nil { // else it was granted a moment ago
			g.meet(&w.WaitingClaim)
		}
	}
	return nil
}

// meet takes up a claim that waits.
func (g *ClaimGranter) meet(w *ledger.WaitingClaim) {
	one := newWaitingClaim(w)
	g.known[w.UUID] = one
	g.file(one)
	g.fresh = append(g.fresh, one)
	heap.Push(&g.due, deadline{w.Until, one})
}

// expire ends the waiting of those whose time is over. It returns how long the next one
// has, or until all are tried if that is sooner.
func (g *ClaimGranter) expire(ctx context.Context, now time.Time) (time.Duration, error) {
	for len(g.due) > 0 {
		first := g.due[0]
		if g.known[first.UUID] == first.waitingClaim {
			if first.at > now.UnixNano() {
				return min(triesAllEvery, time.Duration(first.at-now.UnixNano())), nil
			}
			o, err := g.carryOut(ctx, first.waitingClaim, &commands.ExpireClaim{Claim: first.UUID, Now: now.UnixNano()})
			if err != nil {
				return 0, err
			}
			if o.Rejection != nil {
				g.due[0].at = now.Add(triesAllEvery).UnixNano()
				heap.Fix(&g.due, 0)
				continue
			}
		}
		heap.Pop(&g.due)
	}
	return triesAllEvery, nil
}

// deadlines is a heap: the first is that which is over first.
type deadlines []deadline

type deadline struct {
	at int64 // Unix nanoseconds
	*waitingClaim
}

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }

func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d *deadlines) Push(one any) { *d = append(*d, one.(deadline)) }

func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = deadline{}
	*d = (*d)[:len(*d)-1]
	return last
}

func newWaitingClaim(w *ledger.WaitingClaim) *waitingClaim {
	one := &waitingClaim{WaitingClaim: w, asks: make(map[string]int64)}
	claim, err := commands.ParseWaiting(w.Asked)
	if err != nil {
		return one // the decision ends its waiting
	}
	one.claim = claim
	one.placed = claim.Prefer != nil && (claim.Prefer.Name != "" || len(claim.Prefer.Near) > 0)
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
	one.placed = one.placed || len(one.asks) == 0
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
			first.forRoom = !first.placed
			continue
		}
		outcome, err := grant(first.waitingClaim)
		if err != nil {
			return err
		}
		first.forRoom = false
		switch {
		case outcome.Rejection != nil && outcome.Rejection.Code == commands.CodeNoCandidates:
			hopeless[first.shape], first.forRoom = true, !first.placed
		case commands.Claimed(outcome.Events):
			shares.add(first.waitingClaim)
		}
	}
	return nil
}

func (g *ClaimGranter) grant(ctx context.Context, one *waitingClaim) (commands.Outcome, error) {
	return g.carryOut(ctx, one, commands.NewGrantClaim(one.UUID, g.cfg.Now().UnixNano(), one.claim))
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
