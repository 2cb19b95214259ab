package placing

import (
	"sync"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// lane is work that is done beside the search for one claim after the other. Clients
// take turns in it, too.
type lane struct {
	wake    *sync.Cond              // on the Stage's mu
	waiting fair.Queue[func(*pace)] // guarded by the Stage's mu
}

// runLane does what is queued in a lane. Once the Stage is stopped that ends at once,
// so that everybody is told.
func (s *Stage) runLane(l *lane) {
	for {
		s.mu.Lock()
		for l.waiting.Len() == 0 && !s.stopped {
			l.wake.Wait()
		}
		_, work, ok := l.waiting.Next(nil)
		s.mu.Unlock()
		if !ok {
			return
		}
		s.work(work)
	}
}

func (s *Stage) work(work func(*pace)) {
	p := newPace(s.places)
	defer p.end()
	work(p)
}

// queue has something done for a claim in a lane, unless too much waits there.
func (s *Stage) queue(l *lane, c *claim, work func(*pace)) {
	s.mu.Lock()
	stopped := s.stopped
	busy := !stopped && !l.waiting.Add(c.client(), work)
	l.wake.Signal()
	s.mu.Unlock()
	switch {
	case stopped:
		c.done(commands.Outcome{}, commands.ErrStopped)
	case busy:
		c.done(commands.Outcome{}, commands.ErrBusy)
	}
}

// searchBeside searches for as long as it takes, on a moment in which nothing is
// assumed.
func (s *Stage) searchBeside(c *claim, p *pace) {
	world, view := s.opts.Views.World()
	limits, err := limitsOf(view)
	if err != nil {
		c.done(commands.Outcome{}, err)
		return
	}
	ranking := candidates.NewRanking(world)
	with, err := s.searcher(ranking, view, &c.submission, limits, p)
	if err != nil {
		c.done(commands.Outcome{}, err)
		return
	}
	with.MaxSteps, with.Spare = s.opts.MaxSteps, spareBeside
	var found []*demand.Found
	named := commands.Overlaid(c.submission.Command, with.Named)
	for i, part := range c.parts {
		with.Named = named[i]
		one, err := with.Run(s.ctx, &part.Claim)
		switch {
		case claiming.Spent(err):
			one = &demand.Found{AsOf: view.Sequence(), Spent: true}
		case s.ctx.Err() != nil:
			c.done(commands.Outcome{}, commands.ErrStopped)
			return
		case err != nil:
			c.done(commands.Outcome{}, err)
			return
		}
		one.Last = isNothing(one) || c.round >= maxRounds
		found = append(found, one)
		for _, choice := range one.Choices[:min(1, len(one.Choices))] {
			with.Ranking.Assume(claiming.Takes(&part.Claim, &choice), 1)
		}
	}
	s.pass(c, found)
}

// explain finds out why there is nothing, and passes the claim on.
func (s *Stage) explain(c *claim, found []*demand.Found, p *pace) {
	for i, one := range found {
		// How many providers there are is no business of who is bound to a project.
		if isNothing(one) && !one.Spent && one.OverAggregate == nil && len(c.parts[i].Requests) == 1 && !c.parts[i].Draws() &&
			c.submission.Project == "" {
			s.why.of(s, c.parts[i], one, p)
		}
	}
	for len(found) < len(c.parts) { // what comes behind was not searched
		found = append(found, &demand.Found{AsOf: found[0].AsOf, Last: true, Spent: true})
	}
	s.pass(c, found)
}

// explanations are those that were made last. Where much is rejected, most of
// it is for the same reason.
type explanations struct {
	mu    sync.Mutex
	known map[ledger.Document]explained // guarded by mu
}

type explained struct {
	asOf uint64
	made time.Time
	why  *candidates.Explanation
}

const (
	// goodFor is how long an explanation is told again. It says as of when it is so.
	goodFor = time.Second
	// maxExplained is how many are kept.
	maxExplained = 1024
	// explainSteps bounds one.
	explainSteps = 5_000_000
)

// of explains why nothing was found; if that takes too long it is left out.
func (x *explanations) of(s *Stage, part *commands.Claim, found *demand.Found, p *pace) {
	key := found.Asked[0]
	x.mu.Lock()
	known, has := x.known[key]
	x.mu.Unlock()
	if has && (known.asOf == found.AsOf || time.Since(known.made) < goodFor) {
		found.Why, found.AsOf = known.why, known.asOf
		return
	}
	world, view := s.opts.Views.World()
	classes, err := view.Classes()
	if err != nil {
		return
	}
	req, rejection := part.Requests[0].Resolve(classes)
	if rejection != nil {
		return
	}
	req.MaxSteps, req.Pause = explainSteps, p.pause
	why, err := candidates.Explain(s.ctx, world, req, classes)
	if err != nil {
		return
	}
	found.Why, found.AsOf = why, view.Sequence()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.known) >= maxExplained || x.known == nil {
		x.known = make(map[ledger.Document]explained)
	}
	x.known[key] = explained{asOf: found.AsOf, made: time.Now(), why: why}
}
