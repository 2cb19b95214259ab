package ledger

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"unsafe"
)

// Limits of the domain's values, with the name of Placement's schema constant
// where Placement has the same limit.
const (
	MaxAmount         = 2147483647 // MAX_INT: totals, units and allocated amounts
	MaxAllocRatio     = 3.40282e+38
	MaxNameRunes      = 200 // provider names, in code points
	MaxSymbolBytes    = 255 // traits, resource classes, consumer types
	MaxOwnerRunes     = 255 // project and user ids, in code points
	FirstCustomClass  = ClassID(10000)
	UnknownType       = "unknown" // Placement's name for the type of a consumer without one (1.38)
	maxDecodeElements = 1 << 30
)

// ClassID is the number of a resource class. Standard classes have their place in
// Placement's list, custom ones a number from FirstCustomClass up. A rename keeps
// the number, so inventories and allocations refer to it.
type ClassID uint32

// Inventory is the amount of one class that a provider offers, and the amount in
// use. Amounts are in the class's unit, 0..MaxAmount.
type Inventory struct {
	Class     ClassID
	Total     int64
	Reserved  int64
	MinUnit   int64
	MaxUnit   int64
	StepSize  int64
	Ratio     float64 // allocation_ratio
	Used      int64   // sum of the allocations on it
	UpdatedAt int64   // Unix nanoseconds
}

// Capacity returns (total - reserved) * ratio as a float, because Placement
// compares usage with the untruncated value.
func (inv Inventory) Capacity() float64 { return float64(inv.Total-inv.Reserved) * inv.Ratio }

// Units returns the capacity in whole units, for display. Ratios go up to
// MaxAllocRatio; a capacity beyond int64 is shown as the largest int64.
func (inv Inventory) Units() int64 { return whole(inv.Capacity()) }

// whole truncates a number to an integer, at most the largest int64.
func whole(capacity float64) int64 {
	switch {
	case capacity >= math.MaxInt64:
		return math.MaxInt64
	case capacity <= math.MinInt64:
		return math.MinInt64
	}
	return int64(capacity)
}

// Provider is a resource provider. Values reached from a State or View are
// shared and must not be changed.
type Provider struct {
	UUID        UUID
	Name        string
	Generation  int64
	Parent      UUID // NilUUID at the root of a tree
	Root        UUID
	CreatedAt   int64       // Unix nanoseconds
	UpdatedAt   int64       // Unix nanoseconds
	Inventories []Inventory // sorted by Class
	Traits      []string    // sorted
	Aggregates  []UUID      // in the client's order
	Spelt       []string    // Aggregates as clients spelt them first; nil: all as UUID.String does
	Counters    []Counter   // sorted by name
	Draws       []Draw      // sorted by class and counter

	epoch uint64 // the State's edit that made this copy; see State.editProvider
}

// Inventory finds the inventory of a class.
func (p *Provider) Inventory(class ClassID) (Inventory, bool) {
	if i, ok := p.findInventory(class); ok {
		return p.Inventories[i], true
	}
	return Inventory{}, false
}

// AggregateText returns an aggregate, the i-th of the provider, as it was spelt.
func (p *Provider) AggregateText(i int) string {
	if p.Spelt != nil {
		return p.Spelt[i]
	}
	return p.Aggregates[i].String()
}

func (p *Provider) findInventory(class ClassID) (int, bool) {
	for i := range p.Inventories {
		if p.Inventories[i].Class >= class {
			return i, p.Inventories[i].Class == class
		}
	}
	return len(p.Inventories), false
}

// HasTrait reports whether the provider itself has the trait.
func (p *Provider) HasTrait(name string) bool {
	_, found := slices.BinarySearch(p.Traits, name)
	return found
}

// InUse lists, in class order, the classes with allocations.
func (p *Provider) InUse() []ClassID {
	var classes []ClassID
	for _, inv := range p.Inventories {
		if inv.Used > 0 {
			classes = append(classes, inv.Class)
		}
	}
	return classes
}

// Allocation is an amount of one class on one provider.
type Allocation struct {
	Provider UUID
	Class    ClassID
	Amount   int64
}

func compareAllocations(a, b Allocation) int {
	return cmp.Or(a.Provider.Compare(b.Provider), cmp.Compare(a.Class, b.Class))
}

// linearMax is the number of allocations up to which each is compared with each.
const linearMax = 16

// haveTwice reports whether a list has a class of one provider twice.
func haveTwice(list []Allocation) bool {
	if len(list) > linearMax {
		list = slices.Clone(list)
		slices.SortFunc(list, compareAllocations)
		for i := range list[1:] {
			if compareAllocations(list[i], list[i+1]) == 0 {
				return true
			}
		}
		return false
	}
	for i := range list {
		for j := range list[:i] {
			if list[i].Class == list[j].Class && list[i].Provider == list[j].Provider {
				return true
			}
		}
	}
	return false
}

// Owner is the project, user and consumer type under which a consumer's usage is
// counted. Type is empty for consumers written below microversion 1.38.
type Owner struct {
	Project string
	User    string
	Type    string
}

// Compare orders owners by project, user and type.
func (o Owner) Compare(other Owner) int {
	return cmp.Or(cmp.Compare(o.Project, other.Project),
		cmp.Compare(o.User, other.User), cmp.Compare(o.Type, other.Type))
}

// Same reports whether two providers are equal in everything.
func (p *Provider) Same(other *Provider) bool {
	return p.UUID == other.UUID && p.Name == other.Name && p.Parent == other.Parent && p.Root == other.Root &&
		p.Generation == other.Generation && slices.Equal(p.Inventories, other.Inventories) &&
		slices.Equal(p.Traits, other.Traits) && slices.Equal(p.Aggregates, other.Aggregates) &&
		slices.Equal(p.Spelt, other.Spelt) && slices.Equal(p.Counters, other.Counters) &&
		slices.Equal(p.Draws, other.Draws)
}

// Consumer holds allocations. It exists while it holds any.
type Consumer struct {
	UUID       UUID
	Generation uint64 // stream sequence of the commit that last changed it
	CreatedAt  int64  // Unix nanoseconds
	UpdatedAt  int64  // Unix nanoseconds
	Owner      *Owner
	// ReservedUntil is the time, in Unix nanoseconds, at which an unconfirmed
	// reservation is removed; 0: the allocations are permanent.
	ReservedUntil int64
	// Projects may draw on the reservation, beside the owner's.
	Projects []string
	// Allocations are in the order of the client's request, which the event
	// states. Those of one provider need not stand together.
	Allocations []Allocation
}

// HeldOf returns what the consumer holds of one provider, in the order of the
// classes' numbers, as lists of a provider's holders need it.
func (c *Consumer) HeldOf(provider UUID) []Allocation {
	var held []Allocation
	for _, a := range c.Allocations {
		if a.Provider == provider {
			held = append(held, a)
		}
	}
	slices.SortFunc(held, compareAllocations)
	return held
}

// ClassAmount is an amount of one class, summed over something.
type ClassAmount struct {
	Class  ClassID
	Amount int64
}

// Usage is the sum of what the consumers of one owner hold.
type Usage struct {
	Owner     *Owner
	Consumers int64
	Amounts   []ClassAmount // sorted by class, never 0

	epoch uint64
}

// amountOf finds the amount of a class in a list that is sorted by class.
func amountOf(amounts []ClassAmount, class ClassID) int64 {
	if i, found := findAmount(amounts, class); found {
		return amounts[i].Amount
	}
	return 0
}

// addAmount adds to the amount of a class in a list that is sorted by class, and
// keeps no amount of 0.
func addAmount(amounts []ClassAmount, class ClassID, amount int64) []ClassAmount {
	i, found := findAmount(amounts, class)
	if !found {
		amounts = slices.Insert(amounts, i, ClassAmount{Class: class})
	}
	if amounts[i].Amount += amount; amounts[i].Amount == 0 {
		amounts = slices.Delete(amounts, i, i+1)
	}
	return amounts
}

func findAmount(amounts []ClassAmount, class ClassID) (int, bool) {
	i := sort.Search(len(amounts), func(i int) bool { return amounts[i].Class >= class })
	return i, i < len(amounts) && amounts[i].Class == class
}

// Class is a resource class.
type Class struct {
	ID        ClassID
	Name      string
	CreatedAt int64 // Unix nanoseconds
	UpdatedAt int64 // Unix nanoseconds
}

// ClassTable is an immutable set of resource classes. A change of a class, which
// is rare, replaces the whole table.
type ClassTable struct {
	byID   []Class // sorted by ID
	byName map[string]ClassID
}

// NewClassTable indexes classes, which belong to it from now on.
func NewClassTable(classes []Class) *ClassTable {
	slices.SortFunc(classes, func(a, b Class) int { return cmp.Compare(a.ID, b.ID) })
	t := &ClassTable{byID: classes, byName: make(map[string]ClassID, len(classes))}
	for _, c := range classes {
		t.byName[c.Name] = c.ID
	}
	return t
}

// ID finds a class by name.
func (t *ClassTable) ID(name string) (ClassID, bool) {
	id, ok := t.byName[name]
	return id, ok
}

// Get finds a class by number.
func (t *ClassTable) Get(id ClassID) (Class, bool) {
	i, ok := slices.BinarySearchFunc(t.byID, id, func(c Class, id ClassID) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return Class{}, false
	}
	return t.byID[i], true
}

// Name returns a class's name. The number must come from inventories or
// allocations of the same moment as the table.
func (t *ClassTable) Name(id ClassID) string {
	c, _ := t.Get(id)
	return c.Name
}

// All lists the classes by number, standard ones first.
func (t *ClassTable) All() []Class { return t.byID }

func (t *ClassTable) each(yield func(*Class) bool) {
	for i := range t.byID {
		if !yield(&t.byID[i]) {
			return
		}
	}
}

func (t *ClassTable) with(class Class) *ClassTable {
	classes := slices.DeleteFunc(slices.Clone(t.byID), func(c Class) bool { return c.ID == class.ID })
	return NewClassTable(append(classes, class))
}

func (t *ClassTable) without(id ClassID) *ClassTable {
	return NewClassTable(slices.DeleteFunc(slices.Clone(t.byID), func(c Class) bool { return c.ID == id }))
}

// Trait is a name that providers can have.
type Trait struct {
	Name      string
	CreatedAt int64 // Unix nanoseconds
}

// SameList reports whether two lists are the same slice in memory. Edits of a
// provider share the lists that they do not change, so this finds unchanged lists
// without comparing their elements.
func SameList[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}
