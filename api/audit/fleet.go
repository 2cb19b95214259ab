package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

// Fleet is the answer of GET /audit/fleet: everything that can be allocated, in
// sums, and how full each tree is of one class.
type Fleet struct {
	Sequence  uint64       `json:"sequence"` // sequence of the commit that the answer holds for
	Time      time.Time    `json:"time"`     // of that commit
	Providers int          `json:"providers"`
	Trees     int          `json:"trees"`
	Classes   []FleetClass `json:"classes"`
	// Over are inventories of which more is used than their capacity, the worst
	// ones first.
	Over  []OverInventory `json:"over"`
	Cells Cells           `json:"cells"`
}

// FleetClass is what the fleet has of a class.
type FleetClass struct {
	Class     string `json:"class"`
	Providers int    `json:"providers"` // with an inventory of it
	Trees     int    `json:"trees"`
	Total     int64  `json:"total"`
	Capacity  int64  `json:"capacity"` // (total - reserved) * allocation_ratio, of all
	Used      int64  `json:"used"`
	Over      int    `json:"over"` // inventories of which more is used than their capacity
	// Fullness counts trees by how much of the class they have left: those below
	// a tenth, below two tenths and so on, and last those with nothing left.
	Fullness [fullnessSteps + 1]int `json:"fullness"`
}

// fullnessSteps is how many steps of fullness there are below full.
const fullnessSteps = 10

// OverInventory is an inventory of which more is used than its capacity.
type OverInventory struct {
	Provider ledger.UUID `json:"provider"`
	Name     string      `json:"name"`
	ShortInventory
}

// Cells are trees with one class, in columns, since there may be many of them.
type Cells struct {
	Class string `json:"class,omitempty"` // empty: no provider has an inventory
	Order string `json:"order"`
	// Trees is how many trees have the class; the columns hold the first of them.
	Trees     int           `json:"trees"`
	Roots     []ledger.UUID `json:"roots"`
	Names     []string      `json:"names"` // of the roots
	Providers []int         `json:"providers"`
	Used      []int64       `json:"used"`
	Capacity  []int64       `json:"capacity"`
	// Aggregates are those of the roots; In has the numbers of each root's among them.
	Aggregates []ledger.UUID `json:"aggregates"`
	In         [][]int       `json:"in"`
}

// Orders of trees.
const (
	orderName    = "name"
	orderFullest = "fullest"
	orderEmptied = "emptiest"
)

const (
	maxCells     = 20_000
	defaultCells = 5_000
	maxOver      = 50
)

// sums answers questions about how full providers are, and how much is done.
type sums struct{ *Questions }

func (q sums) fleet(ctx context.Context, p *parameters) (any, error) {
	order, limit := p.order(orderFullest), number(p, "limit", 1, maxCells, defaultCells)
	world, view, err := q.world(ctx, p)
	if err != nil {
		return nil, err
	}
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	f := &Fleet{Sequence: view.Sequence(), Providers: world.Len(), Over: []OverInventory{}}
	if f.Time, err = timeOf(view); err != nil {
		return nil, err
	}
	trees := treesOf(world)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f.Trees = len(trees)
	f.sumUp(world, trees, classes)
	class, err := f.chosen(p, classes)
	if err != nil {
		return nil, err
	}
	f.Cells = cellsOf(trees, class, classes, order, limit)
	return f, nil
}

// world returns the providers of the moment at, indexed, and its view.
func (q *Questions) world(ctx context.Context, p *parameters) (*candidates.World, projector.View, error) {
	if p.given["at"] == "" && p.fault == nil {
		world, view := q.Views.World()
		return world, view, nil
	}
	view, err := q.view(p)
	if err != nil {
		return nil, view, err
	}
	if world, now := q.Views.World(); now.Sequence() == view.Sequence() {
		return world, view, nil
	}
	world, err := view.World(ctx)
	return world, view, err
}

// timeOf returns the time of the view's commit; zero before the first.
func timeOf(view projector.View) (time.Time, error) {
	_, at, found, err := view.CommitMark(view.Sequence())
	if err != nil || !found {
		return time.Time{}, err
	}
	return time.Unix(0, at).UTC(), nil
}

func (p *parameters) order(missing string) string {
	order := cmp.Or(p.given["order"], missing)
	if !slices.Contains([]string{orderName, orderFullest, orderEmptied}, order) {
		p.refuse("order: %q is none of %s, %s and %s", order, orderName, orderFullest, orderEmptied)
	}
	return order
}

// tree is a root provider, and what its tree has, by class.
type tree struct {
	root      *ledger.Provider
	providers int
	sums      []amounts // sorted by class
}

type amounts struct {
	class                 ledger.ClassID
	total, capacity, used int64
}

func (t *tree) find(class ledger.ClassID) (int, bool) {
	return slices.BinarySearchFunc(t.sums, class, func(a amounts, c ledger.ClassID) int { return cmp.Compare(a.class, c) })
}

func (t *tree) add(inv *ledger.Inventory) {
	i, found := t.find(inv.Class)
	if !found {
		t.sums = slices.Insert(t.sums, i, amounts{class: inv.Class})
	}
	sum := &t.sums[i]
	sum.total, sum.capacity, sum.used = sum.total+inv.Total, sum.capacity+inv.Units(), sum.used+inv.Used
}

func (t *tree) of(class ledger.ClassID) (amounts, bool) {
	i, found := t.find(class)
	if !found {
		return amounts{class: class}, false
	}
	return t.sums[i], true
}

func (a amounts) fullness() float64 {
	if a.capacity > 0 {
		return float64(a.used) / float64(a.capacity)
	}
	return float64(min(a.used, 1))
}

// treesOf sums up all trees, in the order in which their roots were made.
func treesOf(world *candidates.World) []*tree {
	byRoot := make(map[ledger.UUID]*tree, world.Len())
	list := make([]*tree, 0, world.Len())
	at := func(root ledger.UUID) *tree {
		t := byRoot[root]
		if t == nil {
			t = &tree{}
			byRoot[root] = t
			list = append(list, t)
		}
		return t
	}
	world.Each(func(p *ledger.Provider) bool {
		t := at(p.Root)
		t.providers++
		if p.UUID == p.Root {
			t.root = p
		}
		for i := range p.Inventories {
			t.add(&p.Inventories[i])
		}
		return true
	})
	return list
}

// sumUp fills in the sums of each class, and what is over capacity.
func (f *Fleet) sumUp(world *candidates.World, trees []*tree, classes *ledger.ClassTable) {
	sums := make(map[ledger.ClassID]*FleetClass)
	at := func(class ledger.ClassID) *FleetClass {
		if sums[class] == nil {
			sums[class] = &FleetClass{Class: classes.Name(class)}
		}
		return sums[class]
	}
	for _, t := range trees {
		for _, sum := range t.sums {
			c := at(sum.class)
			c.Trees++
			c.Total, c.Capacity, c.Used = c.Total+sum.total, c.Capacity+sum.capacity, c.Used+sum.used
			c.Fullness[min(fullnessSteps, int(sum.fullness()*fullnessSteps))]++
		}
	}
	world.Each(func(p *ledger.Provider) bool {
		for i := range p.Inventories {
			inv := &p.Inventories[i]
			c := at(inv.Class)
			c.Providers++
			if inv.Used > inv.Units() {
				c.Over++
				f.over(p, inv, c.Class)
			}
		}
		return true
	})
	f.Classes = make([]FleetClass, 0, len(sums))
	for _, c := range sums {
		f.Classes = append(f.Classes, *c)
	}
	slices.SortFunc(f.Classes, func(a, b FleetClass) int { return cmp.Compare(a.Class, b.Class) })
}

func (f *Fleet) over(p *ledger.Provider, inv *ledger.Inventory, class string) {
	one := OverInventory{p.UUID, p.Name, ShortInventory{class, inv.Total, inv.Units(), inv.Used}}
	i, _ := slices.BinarySearchFunc(f.Over, one, func(a, b OverInventory) int {
		return cmp.Or(cmp.Compare(b.Used-b.Capacity, a.Used-a.Capacity), a.Provider.Compare(b.Provider))
	})
	if i >= maxOver {
		return
	}
	f.Over = slices.Insert(f.Over, i, one)
	f.Over = f.Over[:min(len(f.Over), maxOver)]
}

// chosen returns the class of the cells: the one that is asked for, or the one
// that most trees have.
func (f *Fleet) chosen(p *parameters, classes *ledger.ClassTable) (ledger.ClassID, error) {
	name := p.given["class"]
	if name == "" {
		most := 0
		for i := range f.Classes {
			if f.Classes[i].Trees > f.Classes[most].Trees {
				most = i
			}
		}
		if len(f.Classes) == 0 {
			return 0, nil
		}
		name = f.Classes[most].Class
	}
	class, found := classes.ID(name)
	if !found {
		return 0, rest.BadRequest("class: there is no resource class %q", name)
	}
	return class, nil
}

func cellsOf(trees []*tree, class ledger.ClassID, classes *ledger.ClassTable, order string, limit int) Cells {
	list := make([]*tree, 0, len(trees))
	for _, t := range trees {
		if _, has := t.of(class); has {
			list = append(list, t)
		}
	}
	arrange(list, class, order)
	cells := Cells{
		Order: order, Trees: len(list), Roots: []ledger.UUID{}, Names: []string{}, Providers: []int{}, Used: []int64{},
		Capacity: []int64{}, Aggregates: []ledger.UUID{}, In: [][]int{},
	}
	numbers := make(map[ledger.UUID]int)
	if len(list) > 0 {
		cells.Class = classes.Name(class)
	}
	for _, t := range list[:min(limit, len(list))] {
		sum, _ := t.of(class)
		cells.Roots, cells.Names = append(cells.Roots, t.root.UUID), append(cells.Names, t.root.Name)
		cells.Providers = append(cells.Providers, t.providers)
		cells.Used, cells.Capacity = append(cells.Used, sum.used), append(cells.Capacity, sum.capacity)
		in := []int{}
		for _, id := range t.root.Aggregates {
			if _, known := numbers[id]; !known {
				numbers[id] = len(cells.Aggregates)
				cells.Aggregates = append(cells.Aggregates, id)
			}
			in = append(in, numbers[id])
		}
		cells.In = append(cells.In, in)
	}
	return cells
}

// arrange sorts trees by the name of their roots, or by how full they are of a
// class. Trees without the class come last.
func arrange(list []*tree, class ledger.ClassID, order string) {
	byName := func(a, b *tree) int {
		return cmp.Or(cmp.Compare(a.root.Name, b.root.Name), a.root.UUID.Compare(b.root.UUID))
	}
	if order == orderName {
		slices.SortFunc(list, byName)
		return
	}
	slices.SortFunc(list, func(a, b *tree) int {
		one, has := a.of(class)
		other, hasOther := b.of(class)
		if has != hasOther {
			if has {
				return -1
			}
			return 1
		}
		difference := cmp.Compare(other.fullness(), one.fullness())
		if order == orderEmptied {
			difference = -difference
		}
		return cmp.Or(difference, byName(a, b))
	})
}
