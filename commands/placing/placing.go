// Package placing searches for what claims ask for, before the writer decides
// them: a search takes time, and plain allocations must not wait for it.
//
// Claims are searched one after the other, on a Ranking of the newest index.
// What was found for one is assumed to be taken by those behind it, until the
// writer has answered: they are decided in the order in which they are
// searched, and so find almost always what is still there. A search that takes
// long goes on beside, on a moment of the index. When nothing of what was
// found fits any more, the claim is searched again. That nothing satisfies it
// is said only of what is so: where something assumed may be the reason, the
// claim waits until it is known.
package placing

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

const (
	// stepsInTurn bounds a search that others wait for: a few milliseconds.
	stepsInTurn = 40_000
	// maxRounds is how often a claim is searched again because others were faster.
	maxRounds = 16
	// spare is how many candidates are found beside those that are wanted, and
	// spareBeside for a search that takes long, so that more happens meanwhile.
	spare       = 1
	spareBeside = 15
	// settleEvery is after how many claims the stage looks at what was answered.
	settleEvery = 1024
	// keepUpEvery is how often it goes on to the newest moment while no claim comes, so that
	// the next one need not wait for that, unless this takes more than 1/keepUpShare of the time.
	keepUpEvery = time.Second
	keepUpShare = 16
)

// Views is what claims are searched in.
type Views interface {
	World() (*candidates.World, projector.View)
	View() projector.View
}

// Options are a Stage's choices.
type Options struct {
	Views Views
	// Log has the record of a claim that was carried out before; nil: its
	// client is not told again what was chosen.
	Log ledger.Log
	// MaxSteps bounds a search that goes on beside; 0: no bound.
	MaxSteps int
	// Beside is how many such searches go on at once, at least 1, and how many searches
	// compute at a time: half of the processors leaves the others to commands.
	Beside int
}

// Stage searches for claims, from New until Stop.
type Stage struct {
	opts   Options
	places chan struct{} // one is in it for each search that computes, unless it has only begun
	ctx    context.Context
	cancel context.CancelFunc
	idle   sync.WaitGroup
	why    explanations

	mu      sync.Mutex
	wake    *sync.Cond
	waiting fair.Queue[*claim] // to be searched; guarded by mu
	beside  lane               // searches that take long
	told    lane               // why there is nothing, and what was chosen before
	settled []*claim           // the writer has answered, and what they took is still assumed; guarded by mu
	stopped bool               // guarded by mu
	late    bool               // it is time to keep up; guarded by mu

	// What follows is the goroutine's alone.
	ranking *candidates.Ranking
	view    projector.View
	// limits are those of aggregates as of limitsAt; nil: they were not read yet.
	limits   []*ledger.AggregateLimit
	limitsAt uint64
	held     []*claim // searched again when nothing is assumed any more
}

// claim is a submission on its way: a claim, or a batch with some in it.
type claim struct {
	submission commands.Submission
	parts      []*commands.Claim
	decide     commands.Decider
	done       commands.Done
	found      []*demand.Found // for each part, at last
	round      int
	assumed    []candidates.Use
	again      bool // it is to be searched again once settled
}

// New starts a Stage.
func New(opts Options) *Stage {
	opts.Beside = max(1, opts.Beside)
	s := &Stage{opts: opts, places: make(chan struct{}, opts.Beside)}
	s.wake, s.late = sync.NewCond(&s.mu), true
	s.waiting = newQueue[*claim]()
	s.beside.waiting, s.told.waiting = newQueue[func(*pace)](), newQueue[func(*pace)]()
	s.beside.wake, s.told.wake = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.idle.Go(s.run)
	for range opts.Beside {
		s.idle.Go(func() { s.runLane(&s.beside) })
	}
	s.idle.Go(func() { s.runLane(&s.told) })
	return s
}

// newQueue makes a queue of what waits to be searched.
func newQueue[T any]() fair.Queue[T] { return fair.Queue[T]{Most: 16 << 10, Share: 64} }

// Stop ends the searches, and waits until they have ended.
func (s *Stage) Stop() {
	s.GiveUp()
	s.idle.Wait()
}

// GiveUp ends the searches. Claims that have not been passed on are told
// ErrStopped, and so are those that come.
func (s *Stage) GiveUp() {
	s.mu.Lock()
	s.stopped = true
	s.wake.Signal()
	s.beside.wake.Broadcast()
	s.told.wake.Broadcast()
	s.mu.Unlock()
	s.cancel()
}

// Search searches for a submission with claims, has it decided, and tells done
// what Submit would return.
func (s *Stage) Search(submission commands.Submission, decide commands.Decider, done commands.Done) {
	c := &claim{submission: submission, parts: commands.Claims(submission.Command), decide: decide, done: done}
	if err := s.enqueue(c); err != nil {
		done(commands.Outcome{}, err)
	}
}

// client is whose share a claim takes.
func (c *claim) client() string {
	s := &c.submission
	return cmp.Or(s.Client, s.Actor+"\x00"+s.Project)
}

func (s *Stage) enqueue(c *claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return commands.ErrStopped
	}
	if !s.waiting.Add(c.client(), c) {
		return commands.ErrBusy
	}
	s.wake.Signal()
	return nil
}

func (s *Stage) run() {
	keepUp := time.AfterFunc(keepUpEvery, s.fallBehind)
	defer keepUp.Stop()
	for {
		waiting, settled, stopped := s.next()
		if stopped {
			s.tellStopped(settled)
			return
		}
		begun := time.Now()
		s.settle(settled)
		var again []*claim
		if len(s.held) > 0 && s.ranking != nil && !s.ranking.Assumes() {
			again, s.held = s.held, nil
		}
		s.sync()
		keepUp.Reset(max(keepUpEvery, keepUpShare*time.Since(begun)))
		for _, c := range again {
			s.searchOne(c)
		}
		for i := range waiting {
			if i%settleEvery == settleEvery-1 {
				s.settle(s.takeSettled())
			}
			s.searchOne(s.take())
		}
	}
}

func (s *Stage) fallBehind() {
	s.mu.Lock()
	s.late = true
	s.wake.Signal()
	s.mu.Unlock()
}

// next waits for something to do, and returns for how many claims to search. While
// claims are held back no others are taken: those would assume more and more.
func (s *Stage) next() (waiting int, settled []*claim, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped && !s.late && len(s.settled) == 0 && (s.waiting.Len() == 0 || len(s.held) > 0) {
		s.wake.Wait()
	}
	settled, s.settled, s.late = s.settled, nil, false
	if len(s.held) == 0 {
		waiting = s.waiting.Len()
	}
	return waiting, settled, s.stopped
}

// take takes a claim to search for. Each is taken when its turn comes, and not
// before: another client may have sent one since.
func (s *Stage) take() *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, c, _ := s.waiting.Next(nil) // only this goroutine takes any
	return c
}

func (s *Stage) takeSettled() []*claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := s.settled
	s.settled = nil
	return settled
}

func (s *Stage) tellStopped(settled []*claim) {
	for _, c := range s.held {
		c.done(commands.Outcome{}, commands.ErrStopped)
	}
	for c := s.take(); c != nil; c = s.take() {
		c.done(commands.Outcome{}, commands.ErrStopped)
	}
	for _, c := range settled {
		if c.again {
			c.done(commands.Outcome{}, commands.ErrStopped)
		}
	}
}

// settle goes on to a moment that has what claims were answered with, and ends
// what was assumed for them.
func (s *Stage) settle(settled []*claim) {
	if len(settled) == 0 {
		return
	}
	var uses []candidates.Use
	for _, c := range settled {
		uses = append(uses, c.assumed...)
		c.assumed = nil
		if c.again {
			c.again = false
			s.held = append(s.held, c)
		}
	}
	if len(uses) > 0 {
		world, view := s.opts.Views.World()
		s.ranking.SyncAfter(world, uses)
		s.view = view
	}
}

// sync goes on to the newest moment.
func (s *Stage) sync() {
	if s.ranking != nil && s.opts.Views.View().Sequence() == s.view.Sequence() {
		return
	}
	p := newPace(s.places)
	defer p.end()
	world, view := s.opts.Views.World()
	if s.ranking == nil {
		s.ranking = candidates.NewRanking(world)
	}
	s.ranking.GiveWay = p.giveWay
	s.ranking.Sync(world)
	s.ranking.Prepare()
	s.view = view
}

func (s *Stage) searchOne(c *claim) {
	if c.round >= maxRounds {
		s.pass(c, s.nothing(c, true))
		return
	}
	found, hidden, err := s.search(c)
	var rejected *demand.Rejected
	switch {
	case errors.As(err, &rejected):
		s.pass(c, s.nothing(c, true)) // the decision says the same
	case claiming.Spent(err):
		s.queue(&s.beside, c, func(p *pace) { s.searchBeside(c, p) })
	case err != nil:
		c.done(commands.Outcome{}, err)
	case hidden:
		s.held = append(s.held, c)
	case slices.ContainsFunc(found, isNothing):
		s.queue(&s.told, c, func(p *pace) { s.explain(c, found, p) })
	default:
		s.ranking.Assume(c.assumed, 1)
		s.pass(c, found)
	}
}

func isNothing(f *demand.Found) bool { return len(f.Choices) == 0 }

// search searches for each part of a claim. It is hidden if nothing was found
// that is not assumed to be taken.
func (s *Stage) search(c *claim) (found []*demand.Found, hidden bool, err error) {
	if s.limits == nil || s.limitsAt != s.view.Sequence() {
		if s.limits, err = limitsOf(s.view); err != nil {
			return nil, false, err
		}
		s.limitsAt = s.view.Sequence()
	}
	p := newPace(s.places)
	defer p.end()
	with, err := s.searcher(s.ranking, s.view, &c.submission, s.limits, p)
	if err != nil {
		return nil, false, err
	}
	others := s.ranking.Assumes()
	var within []candidates.Use // assumed for the parts behind
	defer func() { s.ranking.Assume(within, -1) }()
	c.assumed = nil
	named := commands.Overlaid(c.submission.Command, with.Named)
	for i, part := range c.parts {
		with.Named = named[i]
		one, err := with.Run(s.ctx, &part.Claim)
		if err != nil {
			return nil, false, err
		}
		found = append(found, one)
		if isNothing(one) {
			hidden, err = others, nil
			if part.Draws() && part.Size() == 1 {
				hidden = others && one.Promised
			} else if part.Size() == 1 && !part.OwnFree && within == nil && one.OverAggregate == nil {
				hidden, err = s.hides(part, with)
			}
			one.Last = true
			return found, hidden, err
		}
		uses := claiming.Takes(&part.Claim, &one.Choices[0])
		c.assumed = append(c.assumed, uses...)
		if i < len(c.parts)-1 {
			s.ranking.Assume(uses, 1)
			within = append(within, uses...)
		}
	}
	return found, false, nil
}

// hides reports whether a part for one consumer may only have found nothing
// because of what is assumed.
func (s *Stage) hides(part *commands.Claim, with *claiming.Search) (bool, error) {
	for _, list := range part.Lists() {
		req, rejection := list[0].Resolve(with.Classes)
		if rejection != nil {
			return false, &demand.Rejected{Rejection: rejection}
		}
		req.Pause = with.Pause
		if hidden, err := s.ranking.Hides(s.ctx, req); hidden || err != nil {
			return hidden, err
		}
	}
	return false, nil
}

// searcher is how a submission is searched for.
func (s *Stage) searcher(
	ranking *candidates.Ranking, view projector.View, submission *commands.Submission, limits []*ledger.AggregateLimit,
	p *pace,
) (*claiming.Search, error) {
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	ranking.GiveWay = p.giveWay
	return &claiming.Search{
		Ranking: ranking, Classes: classes, AsOf: view.Sequence(), Seed: seedOf(submission.ID),
		MaxSteps: stepsInTurn, Pause: p.pause, Spare: spare, Limits: limits,
		Named: demand.Named{Preference: view.Preference, Topology: view.Topology},
		Consumer: func(id ledger.UUID) (*ledger.Consumer, error) {
			consumer, _, err := view.Consumer(id)
			return consumer, err
		},
	}, nil
}

// limitsOf are the limits of aggregates at a moment; never nil.
func limitsOf(view projector.View) ([]*ledger.AggregateLimit, error) {
	limits := []*ledger.AggregateLimit{}
	err := view.AggregateLimits(func(l ledger.AggregateLimit) bool {
		limits = append(limits, &l)
		return true
	})
	return limits, err
}

// seedOf makes the seed of a claim that has none: the same again when it is
// sent again. The end of a uuid is the part that differs most.
func seedOf(id ledger.UUID) uint64 { return binary.BigEndian.Uint64(id[8:]) }

// nothing is what is passed on for a claim for which nothing is found.
func (s *Stage) nothing(c *claim, last bool) []*demand.Found {
	found := make([]*demand.Found, len(c.parts))
	for i := range found {
		found[i] = &demand.Found{AsOf: s.view.Sequence(), Last: last, Spent: true}
	}
	return found
}

// pass has the writer decide a claim. The writer tells at once what it was, in
// the order in which claims are passed on.
func (s *Stage) pass(c *claim, found []*demand.Found) {
	submission := c.submission
	submission.Command, c.found = commands.WithFound(submission.Command, found), found
	c.decide(submission, func(outcome commands.Outcome, err error) { s.answer(c, outcome, err) })
}

// answer takes the writer's answer. What is assumed ends before the client is
// told, so that its next claim sees what is so.
func (s *Stage) answer(c *claim, outcome commands.Outcome, err error) {
	outdated := err == nil && outcome.Rejection != nil && outcome.Rejection.Code == demand.CodeClaimOutdated
	switch {
	case outdated && outcome.Rejection.Beyond != nil:
		i := slices.Index(c.found, outcome.Rejection.Beyond)
		c.parts[i] = c.parts[i].Without(c.found[i])
	case outdated:
		c.round++
	}
	s.mu.Lock()
	stopped := s.stopped
	if !stopped {
		c.again = outdated
		s.settled = append(s.settled, c)
		s.wake.Signal()
	}
	s.mu.Unlock()
	switch {
	case outdated && stopped:
		c.done(commands.Outcome{}, commands.ErrStopped)
	case outdated:
	case err == nil && outcome.Repeated && outcome.Rejection == nil && s.opts.Log != nil:
		s.queue(&s.told, c, func(*pace) { s.recall(c, outcome) })
	default:
		c.done(outcome, err)
	}
}

// recall tells again what was chosen when the claim was carried out first.
func (s *Stage) recall(c *claim, outcome commands.Outcome) {
	record, err := ledger.ReadRecord(s.ctx, s.opts.Log, outcome.Address)
	if err == nil {
		outcome.Events = record.Events
	}
	c.done(outcome, err)
}
