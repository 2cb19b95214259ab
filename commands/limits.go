package commands

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// SetLimit limits how much of a class the consumers of a project, with those of
// the projects below it, hold, or how many consumers of a type there are.
// Without a project it is the default of every project. Of an aggregate it limits how much
// of a class all consumers together hold on its providers. A limit may be lower
// than what is used: nothing grows then until it is above. A limit of nothing
// (null) is removed.
type SetLimit struct {
	operatorsOnly `json:"-"`

	Project string `json:"project,omitempty"`
	Class   string `json:"class,omitempty"` // this, or the type of consumers
	Type    string `json:"type,omitempty"`
	// Aggregate is the one on whose providers a class is limited, for all consumers together.
	Aggregate ledger.UUID `json:"aggregate,omitzero"`
	Most      *int64      `json:"most" jsonschema:"nullable"`
}

func (c *SetLimit) check() *demand.Rejection {
	if c.Project != "" {
		if r := checkOwner("project", c.Project); r != nil {
			return r
		}
	}
	if !c.Aggregate.IsNil() && (c.Project != "" || c.Class == "" || c.Type != "") {
		return demand.Invalid("aggregate", "the limit of an aggregate is of a class, and of no project and no type")
	}
	if (c.Class == "") == (c.Type == "") {
		return demand.Invalid("class", "a limit is of a class or of a type of consumers: not of %q and %q", c.Class, c.Type)
	}
	if c.Type != "" && c.Type != ledger.UnknownType && !isSymbol(c.Type) {
		return demand.Invalid("type", "%q is not the name of a consumer type", c.Type)
	}
	if c.Most != nil && *c.Most < 0 {
		return demand.Invalid("most", "%d is below 0: null removes the limit", *c.Most)
	}
	return nil
}

func (c *SetLimit) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	key := ledger.LimitKey{Project: c.Project, Type: c.Type}
	if c.Class != "" {
		id, known := s.Classes().ID(c.Class)
		if !known {
			return nil, demand.ClassUnknown(c.Class)
		}
		key.Class = id
	}
	if !c.Aggregate.IsNil() {
		return c.ofAggregate(s, ledger.AggregateKey{Aggregate: c.Aggregate, Class: key.Class}), nil
	}
	most, exists := s.Limit(key)
	switch {
	case c.Most == nil && !exists, c.Most != nil && exists && *c.Most == most:
		return nil, nil
	case c.Most == nil:
		return []ledger.Event{ledger.LimitRemoved{Project: c.Project, Class: c.Class, Type: c.Type}}, nil
	}
	return []ledger.Event{ledger.LimitSet{Project: c.Project, Class: c.Class, Type: c.Type, Most: *c.Most}}, nil
}

func (c *SetLimit) ofAggregate(s *ledger.State, key ledger.AggregateKey) []ledger.Event {
	limit, exists := s.AggregateLimit(key)
	switch {
	case c.Most == nil && !exists, c.Most != nil && exists && *c.Most == limit.Most:
		return nil
	case c.Most == nil:
		return []ledger.Event{ledger.AggregateLimitRemoved{Aggregate: c.Aggregate, Class: c.Class}}
	}
	return []ledger.Event{ledger.AggregateLimitSet{Aggregate: c.Aggregate, Class: c.Class, Most: *c.Most}}
}

// PlaceProject puts a project below another one, so that what it holds counts
// for that, too; without a parent it is below none.
type PlaceProject struct {
	operatorsOnly `json:"-"`

	Project string `json:"project"`
	Parent  string `json:"parent,omitempty"`
}

// maxProjectDepth is how many projects may be above one.
const maxProjectDepth = 16

func (c *PlaceProject) check() *demand.Rejection {
	if r := checkOwner("project", c.Project); r != nil || c.Parent == "" {
		return r
	}
	return checkOwner("parent", c.Parent)
}

func (c *PlaceProject) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if parent, _ := s.ProjectParent(c.Project); parent == c.Parent {
		return nil, nil
	}
	depth := 0
	for above := c.Parent; above != ""; depth++ {
		if above == c.Project && depth == 0 {
			return nil, projectLoop(c.Project, "no project is below itself")
		}
		if above == c.Project {
			return nil, projectLoop(c.Project, fmt.Sprintf("project %s is below %s already", c.Parent, c.Project))
		}
		if depth >= maxProjectDepth {
			return nil, tooDeep(c.Project)
		}
		above, _ = s.ProjectParent(above)
	}
	if depth > 0 && depth+heightBelow(s, c.Project) > maxProjectDepth {
		return nil, tooDeep(c.Project)
	}
	return []ledger.Event{ledger.ProjectPlaced{Project: c.Project, Parent: c.Parent}}, nil
}

// heightBelow is how many projects are below one, one below the other.
func heightBelow(s *ledger.State, project string) (height int) {
	s.ProjectParents(func(p ledger.ProjectParent) bool {
		for steps, above := 1, p.Parent; above != "" && steps <= maxProjectDepth; steps++ {
			if above == project {
				height = max(height, steps)
				break
			}
			above, _ = s.ProjectParent(above)
		}
		return true
	})
	return height
}

func tooDeep(project string) *demand.Rejection {
	return projectLoop(project, fmt.Sprintf("at most %d projects may be above one, those below it included", maxProjectDepth))
}

func projectLoop(project, why string) *demand.Rejection {
	return &demand.Rejection{Code: demand.CodeProjectLoop, Message: why, Facts: demand.Facts{Project: project}}
}

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
	held       []ledger.Allocation // scratch
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
	g.add(c.Owner.Project, c.Owner.Type, c.Allocations, -1)
}

func (g *growth) comes(event ledger.Event) {
	holds, is := ledger.HoldingsOf(event)
	if !is {
		return
	}
	g.held = g.held[:0]
	for _, a := range holds.Allocations {
		if id, known := g.state.Classes().ID(a.Class); known {
			g.held = append(g.held, ledger.Allocation{Provider: a.Provider, Class: id, Amount: a.Amount})
		}
	}
	g.add(holds.Project, holds.Type, g.held, 1)
}

// add counts one more consumer, or with sign -1 one less, and what it holds: where that is,
// and for its project and those above it.
func (g *growth) add(project, kind string, held []ledger.Allocation, sign int64) {
	for _, a := range held {
		g.place(a.Provider, a.Class, sign*a.Amount)
	}
	if !g.state.Limited() {
		return // it is counted for aggregates or counters alone
	}
	for below := true; below; project, below = g.state.ProjectParent(project) {
		one := g.projects[project]
		if one == nil {
			one = &grows{amounts: make(map[ledger.ClassID]int64), counts: make(map[string]int64)}
			g.projects[project] = one
		}
		one.counts[ledger.TypeOf(kind)] += sign
		for _, a := range held {
			one.amounts[a.Class] += sign * a.Amount
		}
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

// place counts what is held on a provider, or with an amount below 0 no more, for the
// limited aggregates that it is in and the counters that it draws from.
func (g *growth) place(provider ledger.UUID, class ledger.ClassID, amount int64) {
	if !g.state.AggregatesLimited() && !g.state.Drawing() {
		return
	}
	p, exists := g.state.Provider(provider)
	if !exists {
		return // it comes with the same command, and is in no aggregate
	}
	if len(p.DrawsOf(class)) > 0 {
		g.drawn[drawKey{provider, class}] += amount
	}
	for _, id := range g.state.AggregatesOf(p) {
		key := ledger.AggregateKey{Aggregate: id, Class: class}
		if _, limited := g.state.AggregateLimit(key); limited {
			g.aggregates[key] += amount
		}
	}
}

// checkAggregates finds the first limit of an aggregate that would be gone beyond.
func (g *growth) checkAggregates() *demand.Rejection {
	for _, key := range slices.SortedFunc(maps.Keys(g.aggregates), ledger.AggregateKey.Compare) {
		limit, _ := g.state.AggregateLimit(key)
		if more := g.aggregates[key]; more > 0 && limit.Used+more > limit.Most {
			return demand.OverAggregate(g.state.Classes(), limit, more)
		}
	}
	return nil
}

// ofAggregate reports whether a rejection is about the limit of an aggregate: what
// does not fit into one may fit into another.
func ofAggregate(r *demand.Rejection) bool {
	return r.Code == demand.CodeOverLimit && r.Facts.Aggregate != nil
}

// roomFor says which counter, or limit of an aggregate, events would go beyond: another candidate may
// not.
func roomFor(s *ledger.State, events []ledger.Event) *demand.Rejection {
	if !s.AggregatesLimited() && !s.Drawing() {
		return nil
	}
	grown := growthOf(s, events)
	return cmp.Or(grown.checkCounters(), grown.checkAggregates())
}
