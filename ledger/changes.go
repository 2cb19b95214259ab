package ledger

import "slices"

// Changes lists the changes of one commit to a State, in order: for every entity
// its version before and after, nil where it did not exist. The projector writes
// the versions after. Undo restores the versions before.
//
// The versions are shared with the State and must not be changed.
type Changes struct {
	Providers       []Change[Provider]
	Consumers       []Change[Consumer] // of each once at most
	Usages          []Change[Usage]
	Traits          []Change[Trait]
	Classes         []ClassesChange
	Nodes           []Change[Node]
	NodeAllocations []Change[NodeAllocation] // one for every event about them, in the order of the events
	Chassis         []Change[Chassis]
	Limits          []Change[Limit]
	Parents         []ParentChange
	Preferences     []Change[Preference]
	AggregateLimits []Change[AggregateLimit] // or of what is used of one
	Topologies      []Change[Topology]
}

// ParentChange is one move of a project in the tree; empty: below no other.
type ParentChange struct{ Project, Before, After string }

// ClassesChange is a change of the resource classes.
type ClassesChange struct {
	Before, After *ClassTable
	NextBefore    ClassID
}

// UndoPoint is a moment, within or between commits, that State.Undo can return
// to.
type UndoPoint struct{ singles }

// Begin starts a commit: it forgets the last commit's changes and returns the
// moment before this commit.
func (s *State) Begin() UndoPoint {
	s.epoch++
	s.changes = Changes{}
	return UndoPoint{s.singles}
}

// Changes returns the changes since Begin. The caller may keep them.
func (s *State) Changes() Changes { return s.changes }

// Undo takes back the changes of one commit. Undo the newest commit first, each
// with the UndoPoint that its Begin returned.
func (s *State) Undo(to UndoPoint, changes Changes) {
	undo(changes.Consumers, s.indexConsumer)
	for _, c := range slices.Backward(changes.Usages) {
		s.indexUsage(c.After, c.Before)
		s.undoUsage(c)
	}
	undo(changes.Providers, s.indexProvider)
	undo(changes.Traits, indexIn(s.traits))
	for _, c := range slices.Backward(changes.Classes) {
		s.classes, s.nextClass = c.Before, c.NextBefore
	}
	undo(changes.NodeAllocations, s.indexNodeAllocation)
	undo(changes.Nodes, s.indexNode)
	undo(changes.Chassis, indexIn(s.chassis))
	s.undoLimits(changes)
	undo(changes.Preferences, indexIn(s.preferences))
	undo(changes.AggregateLimits, indexIn(s.aggregateLimits))
	undo(changes.Topologies, indexIn(s.topologies))
	s.singles = to.singles
	s.epoch++
	s.changes = Changes{}
}
