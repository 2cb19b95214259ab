package ledger

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Counter is an amount that a provider shares out among the inventories below it: the slices of a
// card, from which profiles are made (KEP-4815 of Kubernetes calls these shared counters).
type Counter struct {
	Name  string `json:"name"`
	Total int64  `json:"total"` // 0..MaxAmount
}

// Draw is what one unit of a class of a provider takes from a counter: of the nearest provider
// above that has one of the name.
type Draw struct {
	Class   ClassID
	Counter string
	Amount  int64 // 1..MaxAmount
	// Mode, if given, makes all draws of a mode take 1 together, however many units there are:
	// a counter of 1 has one mode at a time.
	Mode string
}

// MaxDrawn is the largest amount that is told apart: what is drawn beyond counts as this.
const MaxDrawn = math.MaxInt64 / 4

// Counter finds a counter of the provider.
func (p *Provider) Counter(name string) (Counter, bool) {
	i, found := slices.BinarySearchFunc(p.Counters, name, func(c Counter, name string) int {
		return cmp.Compare(c.Name, name)
	})
	if !found {
		return Counter{}, false
	}
	return p.Counters[i], true
}

func compareDraws(a, b Draw) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), strings.Compare(a.Counter, b.Counter))
}

// DrawsOf returns the draws of a class, in the order of their counters.
func (p *Provider) DrawsOf(class ClassID) []Draw {
	if len(p.Draws) == 0 {
		return nil
	}
	from, _ := slices.BinarySearchFunc(p.Draws, class, func(d Draw, class ClassID) int {
		return cmp.Compare(d.Class, class)
	})
	to := from
	for to < len(p.Draws) && p.Draws[to].Class == class {
		to++
	}
	return p.Draws[from:to]
}

// Forest is providers with what is above and below each, as one moment has them.
type Forest interface {
	Provider(id UUID) (*Provider, bool)
	Children(parent UUID, yield func(UUID) bool)
}

// CounterAbove finds the provider from whose counter a provider below the given one draws: the given
// one, or the nearest above it that has a counter of the name.
func CounterAbove(f Forest, parent UUID, name string) (*Provider, bool) {
	for !parent.IsNil() {
		p, known := f.Provider(parent)
		if !known {
			return nil, false
		}
		if _, has := p.Counter(name); has {
			return p, true
		}
		parent = p.Parent
	}
	return nil, false
}

// Drawn returns how much is drawn from the counter of a provider by those below it. More is what is
// used of an inventory beside what its provider says; nil: nothing.
func Drawn(f Forest, top UUID, name string, more func(provider UUID, class ClassID) int64) int64 {
	return drawnFrom(f, top, name, more).amount()
}

func drawnFrom(f Forest, top UUID, name string, more func(provider UUID, class ClassID) int64) *drawing {
	d := &drawing{forest: f, name: name, more: more}
	d.below(top)
	return d
}

// Overdraws reports whether more use would draw more from a counter of a provider than there is. Of what is
// drawn too much already, as much may stay. Asked is by how much more would be drawn.
func Overdraws(
	f Forest, top *Provider, name string, more func(provider UUID, class ClassID) int64,
) (asked int64, overdraws bool) {
	counter, _ := top.Counter(name)
	after := drawnFrom(f, top.UUID, name, more)
	if after.amount() <= counter.Total {
		return 0, false
	}
	before := drawnFrom(f, top.UUID, name, nil)
	low, borrow := bits.Sub64(after.low, before.low, 0)
	high, less := bits.Sub64(after.high, before.high, borrow)
	if less != 0 || high == 0 && low == 0 {
		return 0, false
	}
	return sum{high, low}.amount(), true
}

// sum is in 128 bits: many may draw more than the largest amount together.
type sum struct{ high, low uint64 }

// amount is the sum, up to MaxDrawn.
func (s sum) amount() int64 {
	if s.high > 0 {
		return MaxDrawn
	}
	return int64(min(s.low, MaxDrawn))
}

// add adds the product of two positive amounts.
func (s *sum) add(a, b int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	total, carry := bits.Add64(s.low, low, 0)
	s.high, s.low = s.high+high+carry, total
}

type drawing struct {
	forest Forest
	name   string
	more   func(UUID, ClassID) int64
	sum
	modes []string
}

func (d *drawing) below(top UUID) {
	d.forest.Children(top, func(id UUID) bool {
		p, _ := d.forest.Provider(id)
		d.of(p)
		if _, has := p.Counter(d.name); !has {
			d.below(id)
		}
		return true
	})
}

func (d *drawing) of(p *Provider) {
	for _, draw := range p.Draws {
		if draw.Counter != d.name {
			continue
		}
		inv, _ := p.Inventory(draw.Class)
		used := inv.Used
		if d.more != nil {
			used += d.more(p.UUID, draw.Class)
		}
		switch {
		case used <= 0:
		case draw.Mode == "":
			d.add(used, draw.Amount)
		case !slices.Contains(d.modes, draw.Mode):
			d.modes = append(d.modes, draw.Mode)
			d.add(1, 1)
		}
	}
}

// Drawing reports whether any provider draws from a counter.
func (s *State) Drawing() bool { return s.drawing > 0 }

// CountersNeeded lists, sorted, the counters that a provider and those below it draw from, and that none
// within the subtree has: one above has to have them. Without are counters that the provider itself
// is taken not to have.
func CountersNeeded(f Forest, top UUID, without ...string) []string {
	var needed []string
	var visit func(id UUID, had []string)
	visit = func(id UUID, had []string) {
		p, _ := f.Provider(id)
		for _, draw := range p.Draws {
			if !slices.Contains(had, draw.Counter) {
				needed = append(needed, draw.Counter)
			}
		}
		had = slices.Clip(had)
		for _, c := range p.Counters {
			if id != top || !slices.Contains(without, c.Name) {
				had = append(had, c.Name)
			}
		}
		f.Children(id, func(child UUID) bool {
			visit(child, had)
			return true
		})
	}
	visit(top, nil)
	slices.Sort(needed)
	return slices.Compact(needed)
}

type forest struct {
	providers map[UUID]*Provider
	children  map[UUID][]UUID
}

// ForestOf returns providers, such as all of a tree, as a Forest.
func ForestOf(providers []*Provider) Forest {
	f := forest{make(map[UUID]*Provider, len(providers)), make(map[UUID][]UUID)}
	for _, p := range providers {
		f.providers[p.UUID] = p
		f.children[p.Parent] = append(f.children[p.Parent], p.UUID)
	}
	return f
}

func (f forest) Provider(id UUID) (*Provider, bool) {
	p, found := f.providers[id]
	return p, found
}

func (f forest) Children(parent UUID, yield func(UUID) bool) {
	for _, id := range f.children[parent] {
		if !yield(id) {
			return
		}
	}
}
