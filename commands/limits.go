package commands

import (
	"cmp"
	"maps"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// withinLimits says which limit events would go beyond. Every decision comes by
// here, so that no command can forget it; what only the server submits does not: that
// records what is so already. What does not grow is within every limit.
func withinLimits(s *ledger.State, events []ledger.Event) *demand.Rejection {
	if !s.Limited() && !s.AggregatesLimited() && !s.Drawing() {
		return nil
	}
	grown := growthOf(s, events)
	return cmp.Or(grown.checkCounters(), grown.check(), grown.checkAggregates())
}

// growthOf is by how much everything grows by events.
func growthOf(s *ledger.State, events []ledger.Event) growth {
	grown := growth{
		state: s, projects: make(map[string]*grows), aggregates: make(map[ledger.AggregateKey]int64),
		drawn: make(map[drawKey]int64),
	}
	for _, event := range events {
		if topic := ledger.TopicOf(event); topic.Of == ledger.OfConsumer {
			before, _ := s.Consumer(topic.ID)
			grown.leaves(before)
			grown.comes(event)
		}
	}
	return grown
}

// growth is by how much each project grows, each limited aggregate, and what draws from counters.
type growth struct {
	state      *ledger.State
	projects   map[string]*grows
	aggregates map[ledger.AggregateKey]int64
	drawn      map[drawKey]int64
}

// grows is by how much one project grows, with those below it.
type grows struct {
	amounts map[ledger.ClassID]int64
	counts  map[string]int64 // of consumers, by type
}

func (g *growth) leaves(c *ledger.Consumer) {
	if c == nil {
		return
	}
	g.add(c.Owner.Project, c.Owner.Type, -1, func(add func(ledger.ClassID, int64)) {
		for _, a := range c.Allocations {
			add(a.Class, -a.Amount)
		}
	})
	for _, a := range c.Allocations {
		g.place(a.Provider, a.Class, -a.Amount)
	}
}

func (g *growth) comes(event ledger.Event) {
	holds, is := ledger.HoldingsOf(event)
	if !is {
		return
	}
	g.add(holds.Project, holds.Type, 1, func(add func(ledger.ClassID, int64)) {
		for _, a := range holds.Allocations {
			if id, known := g.state.Classes().ID(a.Class); known {
				add(id, a.Amount)
			}
		}
	})
	for _, a := range holds.Allocations {
		if id, known := g.state.Classes().ID(a.Class); known {
			g.place(a.Provider, id, a.Amount)
		}
	}
}

// add counts for a project and those above it.
func (g *growth) add(project, kind string, consumers int64, amounts func(func(ledger.ClassID, int64))) {
	if !g.state.Limited() {
		return // it is counted for aggregates or counters alone
	}
	for below := true; below; project, below = g.state.ProjectParent(project) {
		one := g.projects[project]
		if one == nil {
			one = &grows{amounts: make(map[ledger.ClassID]int64), counts: make(map[string]int64)}
			g.projects[project] = one
		}
		one.counts[ledger.TypeOf(kind)] += consumers
		amounts(func(class ledger.ClassID, amount int64) { one.amounts[class] += amount })
	}
}

// check finds the first limit, by project and class, that would be gone beyond.
func (g *growth) check() *demand.Rejection {
	for _, project := range slices.Sorted(maps.Keys(g.projects)) {
		one := g.projects[project]
		used, _ := g.state.ProjectUsage(project)
		for _, class := range slices.SortedFunc(maps.Keys(one.amounts), cmp.Compare[ledger.ClassID]) {
			key := ledger.LimitKey{Project: project, Class: class}
			if r := g.within(key, used.Amount(class), one.amounts[class]); r != nil {
				return r
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(one.counts)) {
			key := ledger.LimitKey{Project: project, Type: kind}
			if r := g.within(key, used.Count(kind), one.counts[kind]); r != nil {
				return r
			}
		}
	}
	return nil
}

func (g *growth) within(key ledger.LimitKey, used, more int64) *demand.Rejection {
	most, limited := g.state.LimitOf(key)
	if more <= 0 || !limited || used+more <= most {
		return nil
	}
	facts := demand.Facts{Project: key.Project, ConsumerType: key.Type, Limit: &most, Used: used, Asked: more}
	what := "consumers of type " + key.Type
	if key.Type == "" {
		facts.Class = g.state.Classes().Name(key.Class)
		what = facts.Class
	}
	return demand.Refuse(
		demand.CodeOverLimit, facts,
		"project %s would have %d more of %s: its limit is %d, and with those below it %d are used",
		key.Project, more, what, most, used,
	)
}
