package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger/ordered"
)

// LimitKey says what a limit is of: an amount of a class, or a number of
// consumers of a type, that the consumers of a project hold together with those of the
// projects below it. Without a project it is the default of every project.
type LimitKey struct {
	Project string
	Class   ClassID
	// Type is the type of consumers; empty: the limit is of the class.
	Type string
}

// Compare orders limits by project; classes come before types.
func (k LimitKey) Compare(other LimitKey) int {
	return cmp.Or(
		cmp.Compare(k.Project, other.Project), cmp.Compare(k.Type, other.Type), cmp.Compare(k.Class, other.Class),
	)
}

// Limit is how much there may be at most.
type Limit struct {
	LimitKey
	Most int64
}

// ProjectParent is a project that is below another one.
type ProjectParent struct{ Project, Parent string }

// TypeCount is a number of consumers of a type.
type TypeCount struct {
	Type  string // UnknownType for those that have none
	Count int64
}

// ProjectUsage is what the consumers of a project and of those below it hold
// together.
type ProjectUsage struct {
	Project   string
	Amounts   []ClassAmount // sorted by class, never 0
	Consumers []TypeCount   // sorted by type, never 0
	epoch     uint64
}

func newProjects() ordered.Tree[*ProjectUsage] {
	return ordered.New(func(a, b *ProjectUsage) bool { return a.Project < b.Project })
}

// Limited reports whether there is any limit.
func (s *State) Limited() bool { return s.limits.Len() > 0 }

// Limit finds a limit as it was set.
func (s *State) Limit(key LimitKey) (int64, bool) {
	limit, found := s.limits.Get(&Limit{LimitKey: key})
	if !found {
		return 0, false
	}
	return limit.Most, true
}

// LimitOf finds the limit that holds for a project: its own, or the default.
func (s *State) LimitOf(key LimitKey) (int64, bool) {
	if most, own := s.Limit(key); own || key.Project == "" {
		return most, own
	}
	key.Project = ""
	return s.Limit(key)
}

// Limits calls yield for each limit until it returns false.
func (s *State) Limits(yield func(*Limit) bool) { s.limits.Scan(yield) }

// ProjectParent finds the project that another one is below.
func (s *State) ProjectParent(project string) (string, bool) {
	found, ok := s.parents.Get(ProjectParent{Project: project})
	return found.Parent, ok
}

// ProjectParents calls yield for each project that is below another one.
func (s *State) ProjectParents(yield func(ProjectParent) bool) { s.parents.Scan(yield) }

// ProjectUsage finds what a project and those below it hold. It is kept only
// while there is any limit.
func (s *State) ProjectUsage(project string) (*ProjectUsage, bool) {
	return s.projects.Get(&ProjectUsage{Project: project})
}

// ProjectUsages calls yield for each until it returns false.
func (s *State) ProjectUsages(yield func(*ProjectUsage) bool) { s.projects.Scan(yield) }

// Amount is what is held of a class.
func (u *ProjectUsage) Amount(class ClassID) int64 {
	if u == nil {
		return 0
	}
	return amountOf(u.Amounts, class)
}

// Count is how many consumers there are of a type.
func (u *ProjectUsage) Count(kind string) int64 {
	if u == nil {
		return 0
	}
	if i, found := u.findType(kind); found {
		return u.Consumers[i].Count
	}
	return 0
}

func (u *ProjectUsage) findType(kind string) (int, bool) {
	return slices.BinarySearchFunc(
		u.Consumers, kind, func(c TypeCount, kind string) int { return cmp.Compare(c.Type, kind) },
	)
}

// TypeOf is how consumers of a type are counted.
func TypeOf(kind string) string { return cmp.Or(kind, UnknownType) }

// countProject adds to what a project and those above it hold, if that is kept.
// It is called with each change of an owner's usage, as that is made: undoUsage
// takes back what the usage says, and that may be a part of what an impossible
// event asked for.
func (s *State) countProject(owner *Owner, consumers int64, amounts ...ClassAmount) {
	if !s.Limited() {
		return
	}
	for project, below := owner.Project, true; below; project, below = s.ProjectParent(project) {
		u := s.editProjectUsage(project)
		for _, a := range amounts {
			u.Amounts = addAmount(u.Amounts, a.Class, a.Amount)
		}
		u.addConsumers(TypeOf(owner.Type), consumers)
		if len(u.Amounts)+len(u.Consumers) == 0 {
			s.projects.Delete(u)
		}
	}
}

func (s *State) editProjectUsage(project string) *ProjectUsage {
	before, found := s.ProjectUsage(project)
	if found && before.epoch == s.epoch {
		return before
	}
	after := &ProjectUsage{Project: project, epoch: s.epoch}
	if found {
		after.Amounts, after.Consumers = slices.Clone(before.Amounts), slices.Clone(before.Consumers)
	}
	s.projects.Set(after)
	return after
}

func (u *ProjectUsage) addConsumers(kind string, count int64) {
	i, found := u.findType(kind)
	if !found {
		u.Consumers = slices.Insert(u.Consumers, i, TypeCount{Type: kind})
	}
	if u.Consumers[i].Count += count; u.Consumers[i].Count == 0 {
		u.Consumers = slices.Delete(u.Consumers, i, i+1)
	}
}

// countProjects counts anew what every project holds: after limits begin or
// end, and after a change of the tree.
func (s *State) countProjects() {
	s.projects = newProjects()
	s.Usages(func(u *Usage) bool {
		s.countProject(u.Owner, u.Consumers, u.Amounts...)
		return true
	})
}

// undoUsage takes a step of an owner's usage back from the projects.
func (s *State) undoUsage(c Change[Usage]) {
	if c.After != nil {
		taken := slices.Clone(c.After.Amounts)
		for i := range taken {
			taken[i].Amount = -taken[i].Amount
		}
		s.countProject(c.After.Owner, -c.After.Consumers, taken...)
	}
	if c.Before != nil {
		s.countProject(c.Before.Owner, c.Before.Consumers, c.Before.Amounts...)
	}
}

// setLimit sets a limit, or with nil removes it.
func (s *State) setLimit(key LimitKey, after *Limit) {
	before, _ := s.limits.Get(&Limit{LimitKey: key})
	limited := s.Limited()
	replace(s.limits, &s.changes.Limits, before, after)
	if s.Limited() != limited {
		s.countProjects()
	}
}

// setParent puts a project below another one, or with "" below none.
func (s *State) setParent(project, parent string) {
	before, _ := s.ProjectParent(project)
	s.changes.Parents = append(s.changes.Parents, ParentChange{Project: project, Before: before, After: parent})
	s.indexParent(project, parent)
	s.countProjects()
}

func (s *State) indexParent(project, parent string) {
	if parent == "" {
		s.parents.Delete(ProjectParent{Project: project})
		return
	}
	s.parents.Set(ProjectParent{project, parent})
}

// undoLimits puts limits and the tree back as they were.
func (s *State) undoLimits(changes Changes) {
	undo(changes.Limits, indexIn(s.limits))
	for _, c := range slices.Backward(changes.Parents) {
		s.indexParent(c.Project, c.Before)
	}
	if len(changes.Limits)+len(changes.Parents) > 0 {
		s.countProjects()
	}
}

func (l *Limit) form(c *coder) {
	c.fields("limit", 4).text(&l.Project).class(&l.Class).text(&l.Type).int(&l.Most)
}

func (p *ProjectParent) form(c *coder) { c.fields("project", 2).text(&p.Project).text(&p.Parent) }

// checkParents checks the tree of projects that was read, and counts what each holds.
func (s *State) checkParents() (err error) {
	s.ProjectParents(func(p ProjectParent) bool {
		if !s.mayBeBelow(p.Project, p.Parent) {
			err = fmt.Errorf("%w: project %s is below itself", ErrCorrupt, p.Project)
		}
		return err == nil
	})
	if err == nil {
		s.countProjects()
	}
	return err
}

// mayBeBelow reports whether a project may be below another one: not if that is
// the project itself, or below it.
func (s *State) mayBeBelow(project, parent string) bool {
	for steps := 0; parent != "" && steps <= s.parents.Len(); steps++ {
		if parent == project {
			return false
		}
		parent, _ = s.ProjectParent(parent)
	}
	return parent == ""
}
