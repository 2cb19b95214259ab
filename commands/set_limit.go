package commands

import (
	"fmt"

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
