package candidates

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// Explain runs a request filter by filter. The names of classes are those of the
// table. Like Search it fails with ErrBudget if it would take too long. If only
// the search for whole candidates takes too long, the explanation says so.
func Explain(ctx context.Context, w *World, req *Request, classes *ledger.ClassTable) (*Explanation, error) {
	e := &explainer{meter: &meter{ctx: ctx, req: req}, world: w, req: req, classes: classes, out: &Explanation{}}
	for i := range req.Groups {
		g := &req.Groups[i]
		// Each class is examined in every provider, twice.
		if err := e.work(w.costOfFilters(g) + (1+2*len(g.Resources))*int(w.all.GetCardinality())); err != nil {
			return nil, err
		}
		if g.Suffix != "" {
			e.group(g, "", g.Resources)
			continue
		}
		for j, r := range g.Resources {
			e.group(g, classes.Name(r.Class), g.Resources[j:j+1])
		}
	}
	return e.out, e.trees()
}

type explainer struct {
	*meter
	world   *World
	req     *Request
	classes *ledger.ClassTable
	out     *Explanation
	left    *roaring.Bitmap
	steps   []Step
	where   string // the group that the remaining providers are for
}

func (e *explainer) group(g *Group, class string, resources []Resource) {
	w := e.world
	e.left, e.steps = w.all.Clone(), nil
	e.where = "group " + quoted(g.Suffix)
	e.note("all providers")
	for _, r := range resources {
		name := e.classes.Name(r.Class)
		e.left.And(bitsOf(w.classes, r.Class))
		e.note("has inventory of %s", name)
		e.keep(func(p *ledger.Provider) bool {
			inv, _ := p.Inventory(r.Class)
			return r.Amount >= inv.MinUnit && r.Amount <= inv.MaxUnit && r.Amount%inv.StepSize == 0
		})
		e.note("min_unit, max_unit and step_size allow %d of %s at once", r.Amount, name)
		e.keep(func(p *ledger.Provider) bool {
			inv, _ := p.Inventory(r.Class)
			return float64(inv.Used)+float64(r.Amount) <= inv.Capacity()
		})
		e.note("has %d of %s free", r.Amount, name)
	}
	if g.Suffix != "" {
		// The sources of the group without a suffix need these only together.
		for _, anyOf := range g.Required {
			e.left.And(w.withAnyTrait(anyOf))
			e.note("has trait %s", strings.Join(anyOf, " or "))
		}
	}
	for _, name := range g.Forbidden {
		e.left.AndNot(bitsOf(w.traits, name))
		e.note("has not trait %s", name)
	}
	for i, anyOf := range g.MemberOf {
		members := w.inAllAggregates(g.MemberOf[:i+1])
		if g.Suffix == "" {
			members = w.spanned(members)
		}
		e.left.And(members)
		e.note("is in aggregate %s", joined(anyOf))
	}
	for _, aggregate := range g.NotMemberOf {
		e.left.AndNot(bitsOf(w.aggregates, aggregate))
		e.note("is not in aggregate %s", aggregate)
	}
	if g.InTree != nil && len(resources) > 0 {
		e.left.And(w.treeOf(*g.InTree))
		e.note("is in the tree of %s", g.InTree)
	}
	e.out.Groups = append(e.out.Groups, GroupExplanation{Suffix: g.Suffix, Class: class, Steps: e.steps})
}

func (e *explainer) keep(fits func(*ledger.Provider) bool) {
	var gone []uint32
	for it := e.left.Iterator(); it.HasNext(); {
		if number := it.Next(); !fits(e.world.entries.get(number).p) {
			gone = append(gone, number)
		}
	}
	e.left.AndNot(roaring.BitmapOf(gone...))
}

func (e *explainer) note(format string, args ...any) {
	step := Step{Filter: fmt.Sprintf(format, args...), Left: int(e.left.GetCardinality())}
	e.steps = append(e.steps, step)
	if step.Left == 0 && e.out.RemovedLast == "" {
		e.out.RemovedLast = e.where + ": " + step.Filter
	}
}

// trees narrows down the trees, and looks for whole candidates in the rest.
func (e *explainer) trees() error {
	w, req := e.world, e.req
	e.left, e.steps, e.where = w.roots.Clone(), nil, "trees"
	e.note("all trees")
	for _, name := range req.RootRequired {
		e.left.And(bitsOf(w.traits, name))
		e.note("the root has trait %s", name)
	}
	for _, name := range req.RootForbidden {
		e.left.AndNot(bitsOf(w.traits, name))
		e.note("the root has not trait %s", name)
	}
	p, err := w.plan(req, e.meter)
	if err != nil {
		return err
	}
	s := newSearch(e.meter, w, req, p, nil)
	for i := range p.slots {
		if err := e.reachable(s, i); err != nil {
			return err
		}
		g := &req.Groups[p.slots[i].group]
		e.note("can reach providers for group %s%s", quoted(g.Suffix), e.classNote(g, &p.slots[i]))
	}
	err = e.wholes(p)
	e.out.Trees = e.steps
	return err
}

func (e *explainer) classNote(g *Group, slot *slot) string {
	if g.Suffix != "" || len(slot.resources) == 0 {
		return ""
	}
	return ", " + e.classes.Name(slot.resources[0].Class)
}

// reachable leaves the trees that have a source for a slot.
func (e *explainer) reachable(s *search, i int) error {
	if g := &e.req.Groups[s.plan.slots[i].group]; g.Suffix == "" {
		for _, aggregate := range g.NotMemberOf {
			e.left.AndNot(bitsOf(e.world.aggregates, aggregate))
		}
	}
	var gone []uint32
	for it := e.left.Iterator(); it.HasNext(); {
		s.anchor = it.Next()
		s.root = s.world.entries.get(s.anchor).p
		k := s.plan.slots[i].kind
		if err := s.findSources(k); err != nil {
			return err
		}
		if len(s.lists[k]) == 0 {
			gone = append(gone, s.anchor)
		}
	}
	e.left.AndNot(roaring.BitmapOf(gone...))
	return nil
}

// wholes counts the trees with at least one whole candidate. What removes others
// is: required traits of the group without a suffix, group_policy, same_subtree,
// and the sums of amounts.
func (e *explainer) wholes(p *plan) error {
	req := *e.req
	req.Limit = 1
	found := roaring.New()
	filter := "required traits together, group_policy, same_subtree and the sums of amounts"
	for it := e.left.Iterator(); it.HasNext(); {
		anchor := it.Next()
		one := *p
		one.anchors = e.world.set().and(roaring.BitmapOf(anchor))
		err := newSearch(e.meter, e.world, &req, &one, func(*Candidate) bool { found.Add(anchor); return true }).run()
		if errors.Is(err, ErrBudget) {
			e.left = found
			e.note("%s, as far as the budget of %d steps went", filter, req.MaxSteps)
			return nil
		}
		if err != nil {
			return err
		}
	}
	e.left = found
	e.note("%s", filter)
	return nil
}

func quoted(suffix string) string { return `"` + suffix + `"` }

func joined(ids []ledger.UUID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return strings.Join(names, " or ")
}
