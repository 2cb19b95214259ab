package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger/ordered"
)

// ErrInvariant reports events that cannot follow from the State they are folded
// into: a log that Allot did not write, or a bug. It is never a client's fault,
// and the writer stops on it.
var ErrInvariant = errors.New("ledger: invariant broken")

// State is everything that is true after some commit. It is exact, lives in
// memory, and commands are decided against it.
//
// The tables are copy-on-write trees, so Fork costs nothing until one of the
// copies changes. A State is not safe for concurrent use; its forks are
// independent of each other.
type State struct {
	singles
	passed uint64 // the log has no commit between the head and this sequence, see Chain

	providers ordered.Tree[entry[Provider]]
	names     ordered.Tree[nameEntry]
	children  ordered.Tree[childEntry]
	consumers ordered.Tree[consumerEntry]
	usages    ordered.Tree[usageEntry]
	traits    ordered.Tree[*Trait]
	classes   *ClassTable
	nextClass ClassID
	drawing   int // providers that draw from counters

	nodes       ordered.Tree[entry[Node]]
	nodeNames   ordered.Tree[nameEntry]
	instances   ordered.Tree[uuidEntry] // node by instance
	allocations ordered.Tree[entry[NodeAllocation]]
	allocNames  ordered.Tree[nameEntry]
	nodeClasses map[string]*NodeClass
	chassis     ordered.Tree[*Chassis]

	limits          ordered.Tree[*Limit]
	parents         ordered.Tree[ProjectParent]
	projects        ordered.Tree[*ProjectUsage] // kept while there is any limit
	preferences     ordered.Tree[*Preference]
	aggregateLimits ordered.Tree[*AggregateLimit]
	topologies      ordered.Tree[*Topology]

	// epoch counts begun commits. A provider or usage with the current epoch was
	// copied in this commit and may be edited in place.
	epoch   uint64
	changes Changes

	// The event before last edited or searched these; the next event is likely to
	// be about the same entity.
	edited       *Provider
	consumerPath ordered.Path
}

// singles are what a State has one of, beside its tables.
type singles struct {
	ledgerID      UUID
	head          Head
	lastTime      int64  // of the newest record, Unix nanoseconds
	numbers       uint64 // the last number given to a node, node allocation or chassis
	nodeProviders bool   // nodes are resource providers, too
	term          Term
	consumptionAt int64 // see ConsumptionAt
}

// Head is the sequence of a commit and its digest, which stands for the whole log
// up to there, because commits are chained.
type Head struct {
	Sequence uint64 `json:"sequence"`
	Digest   Digest `json:"digest"`
}

type nameEntry struct {
	name string
	id   UUID
}

type childEntry struct{ parent, child UUID }

// usageEntry is what entry is, by owner.
type usageEntry struct {
	owner *Owner
	u     *Usage
}

// NewState returns the State before the first commit.
func NewState() *State {
	byName := func(a, b nameEntry) bool { return a.name < b.name }
	return &State{
		providers: newTable[Provider](),
		names:     ordered.New(byName),
		children: ordered.New(func(a, b childEntry) bool {
			if c := a.parent.Compare(b.parent); c != 0 {
				return c < 0
			}
			return a.child.Compare(b.child) < 0
		}),
		consumers: ordered.New(func(a, b consumerEntry) bool { return a.id.Before(b.id) }),
		usages:    ordered.New(func(a, b usageEntry) bool { return a.owner.Compare(*b.owner) < 0 }),
		traits:    ordered.New(func(a, b *Trait) bool { return a.Name < b.Name }),
		classes:   NewClassTable(nil),
		nextClass: FirstCustomClass,

		nodes:       newTable[Node](),
		nodeNames:   ordered.New(byName),
		instances:   ordered.New(func(a, b uuidEntry) bool { return a.key.Compare(b.key) < 0 }),
		allocations: newTable[NodeAllocation](),
		allocNames:  ordered.New(byName),
		nodeClasses: make(map[string]*NodeClass),
		chassis:     ordered.New(func(a, b *Chassis) bool { return a.UUID.Before(b.UUID) }),

		limits:          ordered.New(func(a, b *Limit) bool { return a.Compare(b.LimitKey) < 0 }),
		parents:         ordered.New(func(a, b ProjectParent) bool { return a.Project < b.Project }),
		projects:        newProjects(),
		preferences:     ordered.New(func(a, b *Preference) bool { return a.Name < b.Name }),
		aggregateLimits: ordered.New(func(a, b *AggregateLimit) bool { return a.Compare(b.AggregateKey) < 0 }),
		topologies:      ordered.New(func(a, b *Topology) bool { return a.Name < b.Name }),
	}
}

// Fork returns an independent copy, in constant time. It must be called
// between commits.
func (s *State) Fork() *State {
	s.epoch++ // Neither copy may edit shared entities in place.
	fork := *s
	fork.providers = ordered.Copy(s.providers)
	fork.names = ordered.Copy(s.names)
	fork.children = ordered.Copy(s.children)
	fork.consumers = ordered.Copy(s.consumers)
	fork.usages = ordered.Copy(s.usages)
	fork.traits = ordered.Copy(s.traits)
	fork.nodes = ordered.Copy(s.nodes)
	fork.nodeNames = ordered.Copy(s.nodeNames)
	fork.instances = ordered.Copy(s.instances)
	fork.allocations = ordered.Copy(s.allocations)
	fork.allocNames = ordered.Copy(s.allocNames)
	fork.nodeClasses = make(map[string]*NodeClass, len(s.nodeClasses))
	for name, class := range s.nodeClasses {
		copied := *class
		copied.free = ordered.Copy(class.free)
		fork.nodeClasses[name] = &copied
	}
	fork.chassis = ordered.Copy(s.chassis)
	fork.limits = ordered.Copy(s.limits)
	fork.parents = ordered.Copy(s.parents)
	fork.projects = ordered.Copy(s.projects)
	fork.preferences = ordered.Copy(s.preferences)
	fork.aggregateLimits = ordered.Copy(s.aggregateLimits)
	fork.topologies = ordered.Copy(s.topologies)
	fork.changes = Changes{}
	return &fork
}

// LedgerID identifies the log that this State was folded from. It is NilUUID
// before the first commit.
func (s *State) LedgerID() UUID { return s.ledgerID }

// Head returns the head of the last folded commit.
func (s *State) Head() Head { return s.head }

// LastTime returns the time of the newest record, in Unix nanoseconds. Times of
// records never go back.
func (s *State) LastTime() int64 { return s.lastTime }

// NodeProviders reports whether nodes are resource providers, too.
func (s *State) NodeProviders() bool { return s.nodeProviders }

// Provider finds a provider.
func (s *State) Provider(id UUID) (*Provider, bool) { return find(s.providers, id) }

// ProviderNamed finds a provider by its name.
func (s *State) ProviderNamed(name string) (UUID, bool) {
	entry, ok := s.names.Get(nameEntry{name: name})
	return entry.id, ok
}

// Providers calls yield for each provider in UUID order until it returns false.
func (s *State) Providers(yield func(*Provider) bool) { scan(s.providers, yield) }

// ProviderCount returns the number of providers.
func (s *State) ProviderCount() int { return s.providers.Len() }

// Children calls yield for each child of a provider in UUID order.
func (s *State) Children(parent UUID, yield func(UUID) bool) {
	s.children.Ascend(childEntry{parent: parent}, func(e childEntry) bool {
		return e.parent == parent && yield(e.child)
	})
}

// Consumer finds a consumer.
func (s *State) Consumer(id UUID) (*Consumer, bool) {
	entry, ok := s.consumers.Get(consumerEntry{id: id})
	if !ok {
		return nil, false
	}
	return entry.consumer(), true
}

// Consumers calls yield for each consumer in UUID order until it returns false.
func (s *State) Consumers(yield func(*Consumer) bool) {
	s.consumers.Scan(func(e consumerEntry) bool { return yield(e.consumer()) })
}

// ConsumerCount returns the number of consumers.
func (s *State) ConsumerCount() int { return s.consumers.Len() }

// Usage returns what an owner's consumers hold together.
func (s *State) Usage(owner *Owner) (*Usage, bool) {
	entry, ok := s.usages.Get(usageEntry{owner: owner})
	return entry.u, ok
}

// Usages calls yield for each usage in owner order until it returns false.
func (s *State) Usages(yield func(*Usage) bool) {
	s.usages.Scan(func(e usageEntry) bool { return yield(e.u) })
}

// Classes returns the resource classes.
func (s *State) Classes() *ClassTable { return s.classes }

// NextClassID returns the number for the next custom class. The number of a
// deleted class is not used again.
func (s *State) NextClassID() ClassID { return s.nextClass }

// HasTrait reports whether the trait exists.
func (s *State) HasTrait(name string) bool {
	_, ok := s.traits.Get(&Trait{Name: name})
	return ok
}

// Traits calls yield for each trait by name until it returns false.
func (s *State) Traits(yield func(*Trait) bool) { s.traits.Scan(yield) }

// TraitInUse reports whether some provider has the trait. It scans all providers,
// because only the deletion of a trait asks.
func (s *State) TraitInUse(name string) bool {
	return some(s.Providers, func(p *Provider) bool { return p.HasTrait(name) })
}

// ClassInUse reports whether some provider has inventory of the class, or says what it draws. It scans
// all providers, because only the deletion of a class asks.
func (s *State) ClassInUse(id ClassID) bool {
	return some(s.Providers, func(p *Provider) bool {
		_, has := p.findInventory(id)
		return has || len(p.DrawsOf(id)) > 0
	})
}

// editProvider returns this commit's copy of the provider, which the caller may
// change.
func (s *State) editProvider(id UUID) (*Provider, error) {
	if s.edited != nil && s.edited.UUID == id && s.edited.epoch == s.epoch {
		return s.edited, nil
	}
	before, ok := s.Provider(id)
	if !ok {
		return nil, fmt.Errorf("%w: no provider %s", ErrInvariant, id)
	}
	if before.epoch != s.epoch {
		after := *before
		after.Inventories = slices.Clone(before.Inventories)
		after.epoch = s.epoch
		s.setProvider(before, &after)
		before = &after
	}
	s.edited = before
	return before, nil
}

// setProvider updates the provider tables from one version of a provider to
// another; nil means that it does not exist. Undo uses it, too.
func (s *State) setProvider(before, after *Provider) {
	s.changes.Providers = append(s.changes.Providers, Change[Provider]{Before: before, After: after})
	s.indexProvider(before, after)
}

func (s *State) indexProvider(before, after *Provider) {
	s.edited = nil
	if before != nil && len(before.Draws) > 0 {
		s.drawing--
	}
	if after != nil && len(after.Draws) > 0 {
		s.drawing++
	}
	if before != nil && (after == nil || before.Name != after.Name) {
		s.names.Delete(nameEntry{name: before.Name})
	}
	if before != nil && !before.Parent.IsNil() && (after == nil || before.Parent != after.Parent) {
		s.children.Delete(childEntry{before.Parent, before.UUID})
	}
	if after == nil {
		s.providers.Delete(entry[Provider]{id: before.UUID})
		return
	}
	s.providers.Set(entry[Provider]{after.UUID, after})
	if before == nil || before.Name != after.Name {
		s.names.Set(nameEntry{after.Name, after.UUID})
	}
	if !after.Parent.IsNil() && (before == nil || before.Parent != after.Parent) {
		s.children.Set(childEntry{after.Parent, after.UUID})
	}
}

// setConsumer replaces a consumer; nil means that it does not exist. The caller
// must update the usages.
func (s *State) setConsumer(before, after *Consumer) {
	s.changes.Consumers = append(s.changes.Consumers, Change[Consumer]{Before: before, After: after})
	s.indexConsumer(before, after)
}

func (s *State) indexConsumer(before, after *Consumer) {
	if after == nil {
		s.consumers.Delete(consumerEntry{id: before.UUID})
		return
	}
	s.consumers.SetHint(after.packed(), &s.consumerPath)
}

// consumerToEdit finds the consumer that an event changes.
func (s *State) consumerToEdit(id UUID) (*Consumer, bool) {
	entry, ok := s.consumers.GetHint(consumerEntry{id: id}, &s.consumerPath)
	if !ok {
		return nil, false
	}
	return entry.consumer(), true
}

// editUsage returns this commit's copy of the owner's usage, which the caller may
// change. It makes an empty one for a new owner.
func (s *State) editUsage(owner *Owner) *Usage {
	before, ok := s.Usage(owner)
	if ok && before.epoch == s.epoch {
		return before
	}
	after := &Usage{epoch: s.epoch}
	if ok {
		*after = *before
		after.Amounts = slices.Clone(before.Amounts)
		after.epoch = s.epoch
	} else {
		before, after.Owner = nil, owner
	}
	s.setUsage(before, after)
	return after
}

func (s *State) setUsage(before, after *Usage) {
	s.changes.Usages = append(s.changes.Usages, Change[Usage]{Before: before, After: after})
	s.indexUsage(before, after)
}

func (s *State) indexUsage(before, after *Usage) {
	if after == nil {
		s.usages.Delete(usageEntry{owner: before.Owner})
		return
	}
	s.usages.Set(usageEntry{after.Owner, after})
}

func (s *State) setClasses(after *ClassTable, next ClassID) {
	s.changes.Classes = append(s.changes.Classes, ClassesChange{
		Before: s.classes, After: after, NextBefore: s.nextClass,
	})
	s.classes, s.nextClass = after, next
}

// countUsage adds a consumer's allocations to the usages of its providers and
// owner, or with sign -1 subtracts them. It returns the Owner value that all
// consumers of this owner share.
func (s *State) countUsage(c *Consumer, sign int64) (*Owner, error) {
	usage := s.editUsage(c.Owner)
	usage.Consumers += sign
	s.countProject(c.Owner, sign)
	var provider *Provider
	for _, a := range c.Allocations {
		if provider == nil || provider.UUID != a.Provider {
			edited, err := s.editProvider(a.Provider)
			if err != nil {
				return nil, err
			}
			provider = edited
		}
		i, ok := provider.findInventory(a.Class)
		if !ok {
			return nil, fmt.Errorf("%w: provider %s has no inventory of class %d", ErrInvariant, a.Provider, a.Class)
		}
		provider.Inventories[i].Used += sign * a.Amount
		if provider.Inventories[i].Used < 0 {
			return nil, fmt.Errorf("%w: usage of class %d on provider %s below 0", ErrInvariant, a.Class, a.Provider)
		}
		s.countAggregates(provider, a.Class, sign*a.Amount)
		usage.Amounts = addAmount(usage.Amounts, a.Class, sign*a.Amount)
		s.countProject(c.Owner, 0, ClassAmount{Class: a.Class, Amount: sign * a.Amount})
	}
	if usage.Consumers == 0 {
		s.setUsage(usage, nil)
	}
	return usage.Owner, nil
}
