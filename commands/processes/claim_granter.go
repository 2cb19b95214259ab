package processes

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
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
	overtaken := func() bool { return now.none() && g.cfg.Freed.pending() }
	err = g.try(ctx, view, tries, overtaken)
	for _, one := range tries {
		g.file(one)
	}
	switch {
	case errors.Is(err, errOvertaken):
		return 0, nil
	case err != nil:
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

// errOvertaken ends a round of new claims in which something is freed: it is for those
// that have waited before them.
var errOvertaken = errors.New("something is freed for others")

// try tries claims in their order, unless they are overtaken. What one is given counts for
// its project at once.
func (g *ClaimGranter) try(
	ctx context.Context, view projector.View, claims []*waitingClaim, overtaken func() bool,
) error {
	if len(claims) == 0 {
		return nil
	}
	shares, err := sharesOf(view, claims)
	if err != nil {
		return err
	}
	return inOrder(shares, claims, func(one *waitingClaim) (commands.Outcome, error) {
		if overtaken() {
			return commands.Outcome{}, errOvertaken
		}
		return g.grant(ctx, one)
	})
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
