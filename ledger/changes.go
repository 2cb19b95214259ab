package ledger

// Changes lists the changes of one commit to a State, in order: for every entity
// its version before and after, nil where it did not exist. The projector writes
// the versions after. Undo restores the versions before.
//
// The versions are shared with the State and must not be changed.
type Changes struct {
	Providers       []ProviderChange
	Consumers       []ConsumerChange
	Usages          []UsageChange
	Traits          []TraitChange
	Classes         []ClassesChange
	Nodes           []NodeChange
	NodeAllocations []NodeAllocationChange
	Chassis         []ChassisChange
	Limits          []LimitChange
	Parents         []ParentChange
	Preferences     []PreferenceChange
	AggregateLimits []AggregateLimitChange
	Topologies      []TopologyChange
}

// ProviderChange is one change of a provider.
type ProviderChange struct{ Before, After *Provider }

// ConsumerChange is one change of a consumer. A consumer changes once at most in
// a commit.
type ConsumerChange struct{ Before, After *Consumer }

// UsageChange is one change of an owner's usage.
type UsageChange struct{ Before, After *Usage }

// LimitChange is one change of a limit.
type LimitChange struct{ Before, After *Limit }

// ParentChange is one move of a project in the tree; empty: below no other.
type ParentChange struct{ Project, Before, After string }

// PreferenceChange is one change of a preference.
type PreferenceChange struct{ Before, After *Preference }

// AggregateLimitChange is one change of a limit of an aggregate, or of what is used
// of it.
type AggregateLimitChange struct{ Before, After *AggregateLimit }

// TraitChange is one change of a trait.
type TraitChange struct{ Before, After *Trait }

// ClassesChange is a change of the resource classes.
type ClassesChange struct {
	Before, After *ClassTable
	NextBefore    ClassID
}

// UndoPoint is a moment, within or between commits, that State.Undo can return
// to.
type UndoPoint struct {
	ledgerID      UUID
	head          Head
	lastTime      int64
	numbers       uint64
	nodeProviders bool
	term          Term
	consumptionAt int64
}

// Begin starts a commit: it forgets the last commit's changes and returns the
// moment before this commit.
func (s *State) Begin() UndoPoint {
	s.epoch++
	s.changes = Changes{}
	return UndoPoint{
		ledgerID: s.ledgerID, head: s.head, lastTime: s.lastTime, numbers: s.numbers, nodeProviders: s.nodeProviders,
		term: s.term, consumptionAt: s.consumptionAt,
	}
}

// Changes returns the changes since Begin. The caller may keep them.
func (s *State) Changes() Changes { return s.changes }

// Undo takes back the changes of one commit. Undo the newest commit first, each
// with the UndoPoint that its Begin returned.
func (s *State) Undo(to UndoPoint, changes Changes) {
	for i := len(changes.Consumers) - 1; i >= 0; i-- {
		s.indexConsumer(changes.Consumers[i].After, changes.Consumers[i].Before)
	}
	for i := len(changes.Usages) - 1; i >= 0; i-- {
		s.indexUsage(changes.Usages[i].After, changes.Usages[i].Before)
		s.undoUsage(changes.Usages[i])
	}
	for i := len(changes.Providers) - 1; i >= 0; i-- {
		s.indexProvider(changes.Providers[i].After, changes.Providers[i].Before)
	}
	for i := len(changes.Traits) - 1; i >= 0; i-- {
		s.indexTrait(changes.Traits[i].After, changes.Traits[i].Before)
	}
	for i := len(changes.Classes) - 1; i >= 0; i-- {
		s.classes, s.nextClass = changes.Classes[i].Before, changes.Classes[i].NextBefore
	}
	s.undoNodes(changes, to.numbers)
	s.undoLimits(changes)
	s.undoPreferences(changes)
	s.undoAggregateLimits(changes)
	s.undoTopologies(changes)
	s.nodeProviders, s.term, s.consumptionAt = to.nodeProviders, to.term, to.consumptionAt
	s.ledgerID, s.head, s.lastTime = to.ledgerID, to.head, to.lastTime
	s.epoch++
	s.changes = Changes{}
}
