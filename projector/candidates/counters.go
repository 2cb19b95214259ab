package candidates

import "github.com/allot-project/allot/ledger"

// forests are the trees in which something draws from counters, by their roots.
type forests struct {
	world *World
	known map[ledger.UUID]ledger.Forest
}

func (f *forests) of(root ledger.UUID) ledger.Forest {
	forest, known := f.known[root]
	if !known {
		forest = f.world.Forest(root)
		if f.known == nil {
			f.known = make(map[ledger.UUID]ledger.Forest)
		}
		f.known[root] = forest
	}
	return forest
}

// Forest is the tree of a root, for what is asked of counters.
func (w *World) Forest(root ledger.UUID) ledger.Forest {
	var tree []*ledger.Provider
	w.Tree(root, func(p *ledger.Provider) { tree = append(tree, p) })
	return ledger.ForestOf(tree)
}

// admitAlone is admit for a provider that serves a group by itself.
func (f *forests) admitAlone(p *ledger.Provider, g *Group) bool {
	return len(p.Draws) == 0 || f.admit(p, g.Resources, usesOf(&Request{Groups: []Group{*g}}, p))
}

// admit reports whether the counters have room from which a provider draws for some resources,
// beside what is used and taken. Taken is a stack of running sums, those resources among them.
func (f *forests) admit(p *ledger.Provider, resources []Resource, taken []Use) bool {
	more := func(provider ledger.UUID, class ledger.ClassID) int64 {
		for j := len(taken) - 1; j >= 0; j-- {
			if taken[j].Class == class && taken[j].Provider.UUID == provider {
				return taken[j].Amount
			}
		}
		return 0
	}
	for _, r := range resources {
		for _, draw := range p.DrawsOf(r.Class) {
			forest := f.of(p.Root)
			top, found := ledger.CounterAbove(forest, p.Parent, draw.Counter)
			if !found {
				return false
			}
			if _, overdraws := ledger.Overdraws(forest, top, draw.Counter, more); overdraws {
				return false
			}
		}
	}
	return true
}

// room is how much more of a class counters leave to a provider, up to most.
func (f *forests) room(p *ledger.Provider, class ledger.ClassID, most int64) int64 {
	for _, draw := range p.DrawsOf(class) {
		forest := f.of(p.Root)
		if top, found := ledger.CounterAbove(forest, p.Parent, draw.Counter); found && draw.Mode == "" {
			counter, _ := top.Counter(draw.Counter)
			left := counter.Total - ledger.Drawn(forest, top.UUID, draw.Counter, nil)
			most = min(most, max(0, left)/draw.Amount)
		}
	}
	if most > 0 && !f.admit(p, []Resource{{Class: class, Amount: 1}}, []Use{{p, class, 1}}) {
		return 0
	}
	return most
}

// roomOf is the largest amount that a consumer may have of a provider.
func (s *search) roomOf(p *ledger.Provider, class ledger.ClassID) int64 {
	room := roomOf(p, class)
	if len(p.Draws) > 0 {
		room = s.forests.room(p, class, room)
	}
	return room
}
