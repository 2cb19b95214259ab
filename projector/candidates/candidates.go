// Package candidates answers GET /allocation_candidates: which sets of
// allocations would satisfy a request. It is pure: a Request against a World
// gives Candidates, always in the same order.
//
// The words are Placement's. A provider with the trait
// MISC_SHARES_VIA_AGGREGATE is a sharing provider: trees that have a member in
// one of its aggregates may use it, and their roots are its anchors. Every
// candidate belongs to one anchor and uses providers of that tree and sharing
// providers anchored there.
package candidates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// SharingTrait marks sharing providers.
const SharingTrait = "MISC_SHARES_VIA_AGGREGATE"

// ErrBudget: the search would take more steps than Request.MaxSteps.
var ErrBudget = errors.New("candidates: the request would take too long to answer")

// Resource is an amount of one class.
type Resource struct {
	Class  ledger.ClassID
	Amount int64
}

// Group is one request group. The one without a suffix may spread its
// resources over providers; every other one is served by one provider.
type Group struct {
	Suffix      string
	Resources   []Resource      // none: a resourceless group (1.36)
	Required    [][]string      // of each list, any
	Forbidden   []string        // none of these
	MemberOf    [][]ledger.UUID // of each list, any
	NotMemberOf []ledger.UUID   // none of these
	InTree      *ledger.UUID
}

// Request is what is asked for.
type Request struct {
	Groups        []Group
	Isolate       bool       // group_policy=isolate
	SameSubtree   [][]string // suffixes whose providers share a subtree
	RootRequired  []string
	RootForbidden []string
	// Limit ends the search after this many candidates; 0: none.
	Limit int
	// Nested is false below 1.29: no candidate then takes from two
	// providers of one tree.
	Nested bool
	// MaxSteps bounds the work: the search fails with ErrBudget beyond.
	MaxSteps int
}

// Use is an amount that a candidate takes.
type Use struct {
	Provider *ledger.Provider
	Class    ledger.ClassID
	Amount   int64
}

// Candidate is one way to satisfy a request.
type Candidate struct {
	Uses     []Use // one per provider and class, summed over groups
	Mappings map[string][]ledger.UUID
}

// World is the providers at one moment, indexed for searches.
type World struct {
	byID   map[ledger.UUID]*ledger.Provider
	roots  []ledger.UUID // sorted
	trees  map[ledger.UUID][]*ledger.Provider
	guests map[ledger.UUID][]*ledger.Provider // sharing providers by anchor, from other trees
	nested bool
}

// NewWorld indexes providers.
func NewWorld(providers []*ledger.Provider) *World {
	w := &World{
		byID: make(map[ledger.UUID]*ledger.Provider, len(providers)), trees: make(map[ledger.UUID][]*ledger.Provider),
		guests: make(map[ledger.UUID][]*ledger.Provider),
	}
	members := make(map[ledger.UUID][]ledger.UUID) // aggregate -> roots
	for _, p := range providers {
		w.byID[p.UUID] = p
		w.trees[p.Root] = append(w.trees[p.Root], p)
		w.nested = w.nested || p.UUID != p.Root
		for _, aggregate := range p.Aggregates {
			members[aggregate] = append(members[aggregate], p.Root)
		}
	}
	for root := range w.trees {
		w.roots = append(w.roots, root)
	}
	slices.SortFunc(w.roots, ledger.UUID.Compare)
	for _, p := range providers {
		if !p.HasTrait(SharingTrait) {
			continue
		}
		seen := map[ledger.UUID]bool{p.Root: true}
		for _, aggregate := range p.Aggregates {
			for _, root := range members[aggregate] {
				if !seen[root] {
					seen[root] = true
					w.guests[root] = append(w.guests[root], p)
				}
			}
		}
	}
	return w
}

// Nested reports whether any provider has a parent.
func (w *World) Nested() bool { return w.nested }

// Tree lists the providers of the tree with this root.
func (w *World) Tree(root ledger.UUID) []*ledger.Provider { return w.trees[root] }

// option is one way to serve one group: what it takes, or for a resourceless
// group only where.
type option struct {
	uses      []Use
	providers []ledger.UUID
}

// search is one run.
type search struct {
	ctx   context.Context
	world *World
	req   *Request
	steps int
	seen  map[string]bool
	found []Candidate
}

var errEnough = errors.New("enough")

// Search finds the candidates, anchor by anchor.
func Search(ctx context.Context, w *World, req *Request) ([]Candidate, error) {
	s := &search{ctx: ctx, world: w, req: req, seen: make(map[string]bool)}
	for _, root := range w.roots {
		err := s.anchor(w.byID[root])
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

// step counts work and stops a search that has become too long or unwanted.
func (s *search) step() error {
	s.steps++
	if s.req.MaxSteps > 0 && s.steps > s.req.MaxSteps {
		return fmt.Errorf("%w: more than %d steps", ErrBudget, s.req.MaxSteps)
	}
	if s.steps%1024 == 0 {
		return s.ctx.Err()
	}
	return nil
}

// anchor finds the candidates of one tree.
func (s *search) anchor(root *ledger.Provider) error {
	if root == nil || !hasAll(root, s.req.RootRequired) || hasAny(root, s.req.RootForbidden) {
		return nil
	}
	options := make([][]option, len(s.req.Groups))
	for i := range s.req.Groups {
		var err error
		if options[i], err = s.options(root, &s.req.Groups[i]); err != nil || len(options[i]) == 0 {
			return err
		}
	}
	return s.merge(options, make([]option, 0, len(options)))
}

// options lists the ways to serve a group under an anchor.
func (s *search) options(root *ledger.Provider, g *Group) ([]option, error) {
	switch {
	case g.Suffix == "":
		return s.spread(root, g)
	case len(g.Resources) == 0 && len(g.Required) == 0 && len(g.MemberOf) == 0:
		return nil, nil // as upstream: what is only forbidden matches nothing
	}
	var list []option
	for _, p := range s.sources(root) {
		if err := s.step(); err != nil {
			return nil, err
		}
		if s.serves(p, g) {
			o := option{providers: []ledger.UUID{p.UUID}}
			for _, r := range g.Resources {
				o.uses = append(o.uses, Use{p, r.Class, r.Amount})
			}
			list = append(list, o)
		}
	}
	return list, nil
}

// sources are the providers that candidates of an anchor may use.
func (s *search) sources(root *ledger.Provider) []*ledger.Provider {
	return slices.Concat(s.world.trees[root.UUID], s.world.guests[root.UUID])
}

// serves reports whether one provider satisfies a whole suffixed group.
func (s *search) serves(p *ledger.Provider, g *Group) bool {
	for _, r := range g.Resources {
		if !fits(p, r) {
			return false
		}
	}
	if len(g.Resources) > 0 && g.InTree != nil && !s.inTree(p, *g.InTree) {
		return false // in_tree of a resourceless group is ignored, as upstream
	}
	for _, anyOf := range g.Required {
		if !hasAny(p, anyOf) {
			return false
		}
	}
	for _, anyOf := range g.MemberOf {
		if !memberOfAny(p, anyOf) {
			return false
		}
	}
	return !hasAny(p, g.Forbidden) && !memberOfAny(p, g.NotMemberOf)
}

func (s *search) inTree(p *ledger.Provider, member ledger.UUID) bool {
	m, ok := s.world.byID[member]
	return ok && m.Root == p.Root
}

// spread serves the group without a suffix: each class wholly from one
// source, traits from all sources together.
func (s *search) spread(root *ledger.Provider, g *Group) ([]option, error) {
	perClass := make([][]*ledger.Provider, len(g.Resources))
	for i, r := range g.Resources {
		for _, p := range s.sources(root) {
			if err := s.step(); err != nil {
				return nil, err
			}
			if fits(p, r) && s.offers(p, root, g) {
				perClass[i] = append(perClass[i], p)
			}
		}
		if len(perClass[i]) == 0 {
			return nil, nil
		}
	}
	var list []option
	chosen := make([]*ledger.Provider, len(g.Resources))
	var choose func(int) error
	choose = func(i int) error {
		if err := s.step(); err != nil {
			return err
		}
		if i == len(chosen) {
			if coversTraits(chosen, g.Required) {
				list = append(list, spreadOption(chosen, g.Resources))
			}
			return nil
		}
		for _, p := range perClass[i] {
			chosen[i] = p
			if err := choose(i + 1); err != nil {
				return err
			}
		}
		return nil
	}
	err := choose(0)
	return list, err
}

// offers checks what holds for each source of the group without a suffix. An
// aggregate of the root spans its tree, but not sharing providers.
func (s *search) offers(p, root *ledger.Provider, g *Group) bool {
	own := p.Root == root.UUID
	if g.InTree != nil && !(own && s.inTree(p, *g.InTree)) {
		return false
	}
	for _, anyOf := range g.MemberOf {
		if !memberOfAny(p, anyOf) && !(own && memberOfAny(root, anyOf)) {
			return false
		}
	}
	return !hasAny(p, g.Forbidden) && !memberOfAny(p, g.NotMemberOf) && !memberOfAny(root, g.NotMemberOf)
}

func coversTraits(chosen []*ledger.Provider, required [][]string) bool {
	for _, anyOf := range required {
		if !slices.ContainsFunc(chosen, func(p *ledger.Provider) bool { return hasAny(p, anyOf) }) {
			return false
		}
	}
	return true
}

func spreadOption(chosen []*ledger.Provider, resources []Resource) option {
	var o option
	for i, p := range chosen {
		o.uses = append(o.uses, Use{p, resources[i].Class, resources[i].Amount})
		if !slices.Contains(o.providers, p.UUID) {
			o.providers = append(o.providers, p.UUID)
		}
	}
	return o
}

// merge picks an option for every group. What can only get worse, capacity
// and isolation, is checked as soon as it is picked.
func (s *search) merge(options [][]option, picked []option) error {
	if err := s.step(); err != nil {
		return err
	}
	if len(picked) == len(options) {
		return s.emit(picked)
	}
	for _, o := range options[len(picked)] {
		if s.isolated(picked, o) && roomFor(picked, o) {
			if err := s.merge(options, append(picked, o)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isolated wants the providers of suffixed groups to differ.
func (s *search) isolated(picked []option, o option) bool {
	if !s.req.Isolate || s.req.Groups[len(picked)].Suffix == "" {
		return true
	}
	for i, other := range picked {
		if s.req.Groups[i].Suffix != "" && other.providers[0] == o.providers[0] {
			return false
		}
	}
	return true
}

// roomFor checks the sums of what several groups take from one inventory.
func roomFor(picked []option, o option) bool {
	for _, use := range o.uses {
		sum := use.Amount
		for _, other := range picked {
			for _, u := range other.uses {
				if u.Provider == use.Provider && u.Class == use.Class {
					sum += u.Amount
				}
			}
		}
		inv, _ := use.Provider.Inventory(use.Class)
		if sum > inv.MaxUnit || float64(inv.Used+sum) > inv.Capacity() {
			return false
		}
	}
	return true
}

// emit keeps a complete candidate if it is new and the last checks hold.
func (s *search) emit(picked []option) error {
	c := Candidate{Mappings: make(map[string][]ledger.UUID, len(picked))}
	for i, o := range picked {
		c.Mappings[s.req.Groups[i].Suffix] = o.providers
		for _, use := range o.uses {
			c.add(use)
		}
	}
	if !s.subtreesHold(c.Mappings) || !s.req.Nested && s.world.nested && twoOfOneTree(c.Uses) {
		return nil
	}
	key := c.key()
	if s.seen[key] {
		return nil
	}
	s.seen[key] = true
	s.found = append(s.found, c)
	if s.req.Limit > 0 && len(s.found) >= s.req.Limit {
		return errEnough
	}
	return nil
}

func (c *Candidate) add(use Use) {
	for i := range c.Uses {
		if c.Uses[i].Provider == use.Provider && c.Uses[i].Class == use.Class {
			c.Uses[i].Amount += use.Amount
			return
		}
	}
	c.Uses = append(c.Uses, use)
}

// key is the same for candidates that are the same.
func (c *Candidate) key() string {
	var parts []string
	for _, u := range c.Uses {
		parts = append(parts, fmt.Sprintf("%s %d %d", u.Provider.UUID, u.Class, u.Amount))
	}
	for suffix, ids := range c.Mappings {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = id.String()
		}
		sort.Strings(names)
		parts = append(parts, suffix+"="+strings.Join(names, ","))
	}
	sort.Strings(parts)
	return strings.Join(parts, ";")
}

// subtreesHold checks same_subtree: one of the providers is an ancestor of
// all, or all of them.
func (s *search) subtreesHold(mappings map[string][]ledger.UUID) bool {
	for _, suffixes := range s.req.SameSubtree {
		var ids []ledger.UUID
		for _, suffix := range suffixes {
			ids = append(ids, mappings[suffix]...)
		}
		if !slices.ContainsFunc(ids, func(top ledger.UUID) bool {
			return !slices.ContainsFunc(ids, func(id ledger.UUID) bool { return !s.below(id, top) })
		}) {
			return false
		}
	}
	return true
}

// below reports whether a provider is top or under it.
func (s *search) below(id, top ledger.UUID) bool {
	for id != top {
		p, ok := s.world.byID[id]
		if !ok || p.Parent.IsNil() {
			return false
		}
		id = p.Parent
	}
	return true
}

func twoOfOneTree(uses []Use) bool {
	for i, a := range uses {
		for _, b := range uses[:i] {
			if a.Provider.Root == b.Provider.Root && a.Provider != b.Provider {
				return true
			}
		}
	}
	return false
}

func fits(p *ledger.Provider, r Resource) bool {
	inv, ok := p.Inventory(r.Class)
	return ok && float64(inv.Used)+float64(r.Amount) <= inv.Capacity() &&
		r.Amount >= inv.MinUnit && r.Amount <= inv.MaxUnit && r.Amount%inv.StepSize == 0
}

func hasAll(p *ledger.Provider, traits []string) bool {
	return !slices.ContainsFunc(traits, func(name string) bool { return !p.HasTrait(name) })
}

func hasAny(p *ledger.Provider, traits []string) bool { return slices.ContainsFunc(traits, p.HasTrait) }

func memberOfAny(p *ledger.Provider, aggregates []ledger.UUID) bool {
	return slices.ContainsFunc(aggregates, func(id ledger.UUID) bool { return slices.Contains(p.Aggregates, id) })
}
