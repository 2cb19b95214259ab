package candidates

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// selection is the search for the best candidates of one request.
type selection struct {
	*meter
	world *World
	req   *Request
	pref  *Preference
	k     int
	point ledger.UUID
	near  []*roaring.Bitmap // per rule of the preference; nil: it says nothing
	named *named            // nil: nothing is required by name
	found []Ranked          // the best so far, at most k
	bound float64           // no candidate of the present tree has a higher score
	kept  int               // counts candidates that were among the best, or in front of the page

	// most, if set, wants only the best candidate of each tree, of so many trees: these are heads.
	most  int
	heads []Ranked

	after *Position // only what comes after it is wanted; nil: everything
	equal int       // how many were found that are at after

	search  *search // of trees with several providers; nil: not needed so far
	plan    *plan
	pruning *pruning // of the present tree; nil: not needed so far
	classes []demanded
	asked   []Resource // of each class together
}

func newSelection(ctx context.Context, w *World, req *Request, pref *Preference, k int) *selection {
	whole := *req
	whole.Limit, whole.Shuffle = 0, false // the order is that of the preference
	s := &selection{
		meter: &meter{ctx: ctx, req: &whole}, world: w, req: &whole, pref: pref, k: k, point: pointOf(pref),
		near: w.nearSets(pref), named: namedBy(&whole), bound: math.Inf(1),
	}
	s.asked = s.total()
	for _, weight := range pref.Weights {
		one := notAsked
		if slices.ContainsFunc(s.asked, func(r Resource) bool { return r.Class == weight.Class }) {
			one = askedAlone
			if slices.ContainsFunc(whole.Groups, func(g Group) bool { return len(g.Resources) == 0 }) {
				one = asked
			}
		}
		s.classes = append(s.classes, one)
	}
	return s
}

// sharing providers tie trees together, so that what is in one says nothing about its
// candidates.
func (s *selection) sharing() bool { return !bitsOf(s.world.traits, SharingTrait).IsEmpty() }

func (s *selection) all() ([]Ranked, error) {
	if err := s.prepareAll(); err != nil {
		return nil, err
	}
	anchors := s.plan.anchors.bits()
	if err := s.suffices(anchors); err != nil {
		return nil, err
	}
	for it := anchors.Iterator(); it.HasNext(); {
		if err := s.tree(it.Next()); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

func (s *selection) each(roots *roaring.Bitmap, bonus float64) error {
	if err := s.suffices(roots); err != nil {
		return err
	}
	for it := roots.Iterator(); it.HasNext(); {
		number := it.Next()
		if err := s.step(); err != nil {
			return err
		}
		root := s.world.entries.get(number).p
		from := distanceOf(s.pref, s.point, root.UUID)
		bound := bonus
		if len(s.pref.Weights) > 0 {
			bound += boundOf(s.pref, s.world.treeMembers(nil, number), s.classes)
		}
		if _, err := s.consider(number, bound, from); err != nil {
			return err
		}
	}
	return nil
}

// consider looks at a tree whose candidates have at most some score, unless
// enough are found that are better.
func (s *selection) consider(root uint32, bound float64, from distance) (enough bool, err error) {
	if s.most == 0 {
		return s.look(root, bound, from)
	}
	kept := s.kept
	if s.found = s.found[:0]; len(s.heads) == s.most {
		s.found = append(s.found, s.heads[s.most-1])
	}
	if enough, err = s.look(root, bound, from); err == nil && s.kept > kept {
		if len(s.heads) < s.most {
			s.steps = 0 // each of them has a budget of its own
		}
		s.heads = insert(s.heads, s.found[0], s.most)
	}
	return enough, err
}

// look is consider, of what is found.
func (s *selection) look(root uint32, bound float64, from distance) (enough bool, err error) {
	if s.bound = bound; len(s.found) == s.k {
		if last := &s.found[s.k-1]; precedes(last.Score, last.From, bound, from) {
			return true, nil
		}
	}
	if !s.world.alone(root) {
		if err := s.prepare(); err != nil || !s.plan.anchors.contains(root) {
			return false, err
		}
		return false, s.tree(root)
	}
	p := s.world.entries.get(root).p
	if err := s.work(1 + len(s.req.Groups)); err != nil || !servesAlone(s.req, p) {
		return false, err
	}
	alone := []*ledger.Provider{p}
	score, holds := s.judge(p, alone)
	if !holds || s.passed(score, from) || !s.wanted(score, from) {
		return false, nil
	}
	one := Ranked{Root: p, Score: score, Seen: alone, From: from}
	if one.Uses = usesOf(s.req, p); !s.fits(one.Uses) {
		return false, nil
	}
	for range s.req.Groups {
		one.Groups = append(one.Groups, alone)
	}
	s.keep(one)
	return false, nil
}

// prepare makes what trees with several providers are searched with.
func (s *selection) prepare() (err error) {
	if s.search != nil {
		return nil
	}
	if s.plan, err = s.world.plan(s.req, s.meter); err == nil {
		s.search = newSearch(s.meter, s.world, s.req, s.plan, s.candidate)
		if len(s.plan.slots) > 1 && len(s.plan.kinds) <= maxKinds && len(s.req.SameSubtree) <= maxKinds {
			s.search.best = s
		}
	}
	return err
}

// prepareAll also finds the roots that may be anchors.
func (s *selection) prepareAll() error {
	if err := s.prepare(); err != nil {
		return err
	}
	return s.world.narrow(s.plan, s.req, s.meter)
}

// tree looks at every candidate of a tree.
func (s *selection) tree(anchor uint32) error {
	s.search.anchor, s.search.root, s.pruning = anchor, s.world.entries.get(anchor).p, nil
	_, err := s.search.visitAnchor()
	s.search.ended = false
	return err
}

// candidate keeps one if it is among the best. Of equal ones of a tree that
// stays first which was found first.
func (s *selection) candidate(c *Candidate) bool {
	providers := c.Providers()
	root := s.search.root
	if home := homeOf(providers); home.Root != root.UUID {
		root, _ = s.world.Provider(home.Root)
	}
	score, holds := s.judge(root, providers)
	from := distanceOf(s.pref, s.point, root.UUID)
	if !holds || s.passed(score, from) || !s.wanted(score, from) || !s.fits(c.Uses) {
		return true
	}
	one := Ranked{Root: root, Score: score, Seen: s.withParents(providers), From: from}
	one.Uses = slices.Clone(c.Uses)
	for _, members := range c.Groups {
		one.Groups = append(one.Groups, slices.Clone(members))
	}
	s.keep(one)
	return s.k > 1 || score < s.bound
}

// homeOf is the provider below whose root a candidate is: the first one that does not share, if there is one.
func homeOf(providers []*ledger.Provider) *ledger.Provider {
	at := slices.IndexFunc(providers, func(p *ledger.Provider) bool { return !p.HasTrait(SharingTrait) })
	return providers[max(0, at)]
}

func (s *selection) fits(uses []Use) bool { return s.pref.Fits == nil || s.pref.Fits(uses) }

// withParents adds what is above providers.
func (s *selection) withParents(providers []*ledger.Provider) []*ledger.Provider {
	seen := slices.Clone(providers)
	for i := 0; i < len(seen); i++ {
		above := seen[i].Parent
		if slices.ContainsFunc(seen, func(p *ledger.Provider) bool { return p.UUID == above }) {
			continue
		}
		if parent, has := s.world.Provider(above); has {
			seen = append(seen, parent)
		}
	}
	return seen
}

func (s *selection) wanted(score float64, from distance) bool {
	if len(s.found) < s.k {
		return true
	}
	last := &s.found[s.k-1]
	return precedes(score, from, last.Score, last.From)
}

func (s *selection) keep(one Ranked) {
	s.kept++
	s.found = insert(s.found, one, s.k)
}

// insert puts a candidate where it belongs among up to so many.
func insert(list []Ranked, one Ranked, most int) []Ranked {
	i := len(list)
	for i > 0 && precedes(one.Score, one.From, list[i-1].Score, list[i-1].From) {
		i--
	}
	return slices.Insert(list[:min(len(list), most-1)], i, one)
}

// total is what the request asks for, of each class together.
func (s *selection) total() (total []Resource) {
	for i := range s.req.Groups {
		for _, r := range s.req.Groups[i].Resources {
			j := slices.IndexFunc(total, func(t Resource) bool { return t.Class == r.Class })
			if j < 0 {
				total, j = append(total, Resource{Class: r.Class}), len(total)
			}
			total[j].Amount += r.Amount
		}
	}
	return total
}

// narrowest is the smallest set of roots that the request's filters of names
// leave, each by itself; nil: it has none.
func (s *selection) narrowest() (narrow *roaring.Bitmap) {
	w := s.world
	add := func(roots *roaring.Bitmap) {
		if narrow == nil || roots.GetCardinality() < narrow.GetCardinality() {
			narrow = roots
		}
	}
	if s.named != nil {
		s.named.sets(w, add)
	}
	for i := range s.req.Groups {
		if g := &s.req.Groups[i]; g.InTree != nil && len(g.Resources) > 0 {
			add(roaring.And(w.treeOf(*g.InTree), w.roots))
		}
	}
	for i, set := range s.near {
		if set != nil && s.pref.Near[i].Rule == RequireNear {
			add(w.rootsOf(set))
		}
	}
	if narrow != nil && w.Nested() {
		narrow = roaring.And(narrow, w.roots) // a trait may be of no root
	}
	return narrow
}

// stratum is the roots that have the same of what is preferred, and what that
// is worth at most; nil: all roots.
type stratum struct {
	roots *roaring.Bitmap
	bonus float64
}

// strata divides the roots by which preferred traits and aggregates, and what is
// near, are somewhere in their trees.
func (s *selection) strata() []stratum {
	var sets []*roaring.Bitmap
	var weights []float64
	for _, t := range s.pref.Traits {
		sets, weights = append(sets, s.world.rootsOf(bitsOf(s.world.traits, t.Trait))), append(weights, t.Weight)
	}
	for _, a := range s.pref.Aggregates {
		sets = append(sets, s.world.rootsOf(bitsOf(s.world.aggregates, a.Aggregate)))
		weights = append(weights, a.Weight)
	}
	for i, set := range s.near {
		if set != nil && s.pref.Near[i].Rule == PreferNear {
			sets, weights = append(sets, s.world.rootsOf(set)), append(weights, s.pref.Near[i].Weight)
		}
	}
	if sets == nil {
		return []stratum{{}}
	}
	var list []stratum
	for mask := range 1 << len(sets) {
		one := stratum{roots: s.world.roots.Clone()}
		for i, set := range sets {
			if mask>>i&1 == 0 {
				one.roots.AndNot(set)
				continue
			}
			one.roots.And(set)
			one.bonus += s.worth(weights[i])
		}
		if soft(s.pref) > len(s.pref.Traits)+len(s.pref.Aggregates) {
			one.bonus += math.Abs(one.bonus)*boundSlack + boundSlack // scores are summed in another order
		}
		if !one.roots.IsEmpty() {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b stratum) int { return cmp.Compare(b.bonus, a.bonus) })
	return list
}

// worth is what something in a tree adds at most to the score of a candidate,
// which need not have to do with it where trees have several providers.
func (s *selection) worth(weight float64) float64 {
	if s.world.Nested() {
		return max(weight, 0)
	}
	return weight
}

// Position is a place in the order that a Preference gives to candidates: the
// one behind some candidate. It holds for the same request and preference only.
// In the same World exactly those candidates come after it that were not found
// up to there; in another World those that stand behind that place now.
type Position struct {
	score float64
	from  distance
	// given is how many of those with this score under this root are in front.
	given int
}

// positionBytes is the size of an encoded Position.
const positionBytes = 8 + 16 + 4

// Append encodes a Position.
func (p Position) Append(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, math.Float64bits(p.score))
	out = binary.BigEndian.AppendUint64(out, p.from.High)
	out = binary.BigEndian.AppendUint64(out, p.from.Low)
	return binary.BigEndian.AppendUint32(out, uint32(p.given))
}

// ReadPosition decodes what Append made.
func ReadPosition(data []byte) (p Position, err error) {
	if len(data) != positionBytes {
		return p, errors.New("candidates: a position of another size")
	}
	p.score = math.Float64frombits(binary.BigEndian.Uint64(data))
	p.from = distance{High: binary.BigEndian.Uint64(data[8:]), Low: binary.BigEndian.Uint64(data[16:])}
	p.given = int(binary.BigEndian.Uint32(data[24:]))
	if math.IsNaN(p.score) || p.given < 1 || p.given > math.MaxInt32 {
		return p, errors.New("candidates: no place in an order")
	}
	return p, nil
}

// Page finds up to k candidates, the best first: of all of them, or of those
// that come after a Position. Each candidate comes with the Position behind it.
func Page(
	ctx context.Context, w *World, req *Request, pref *Preference, k int, after *Position,
) ([]Ranked, []Position, error) {
	s := newSelection(ctx, w, req, pref, k)
	s.after = after
	if err := s.page(); err != nil {
		return nil, nil, err
	}
	behind := make([]Position, len(s.found))
	for i := range s.found {
		one := &s.found[i]
		behind[i] = Position{score: one.Score, from: one.From, given: 1}
		switch {
		case i > 0 && behind[i-1].score == one.Score && behind[i-1].from == one.From:
			behind[i].given = behind[i-1].given + 1
		case after != nil && after.score == one.Score && after.from == one.From:
			behind[i].given = after.given + 1
		}
	}
	return s.found, behind, nil
}

// page looks at every tree that may have a candidate: in another order than
// all, if no sharing provider ties trees together, so that providers which are
// trees by themselves cost little.
func (s *selection) page() error {
	if s.sharing() {
		_, err := s.all()
		return err
	}
	most := 0.0
	for _, t := range s.pref.Traits {
		most += max(t.Weight, 0)
	}
	for _, a := range s.pref.Aggregates {
		most += max(a.Weight, 0)
	}
	for i := range s.pref.Near {
		most += max(s.pref.Near[i].Weight, 0)
	}
	roots := s.narrowest()
	if roots == nil {
		roots = s.world.roots
	}
	// What is added in another order may be rounded in another way.
	return s.each(roots, most+math.Abs(most)*boundSlack)
}

// passed reports whether a candidate stands in front of the page. Of those that
// are equal and under one root, which are found in the same order again, some
// are in front.
func (s *selection) passed(score float64, from distance) bool {
	if s.after == nil || precedes(s.after.score, s.after.from, score, from) {
		return false
	}
	if score != s.after.score || from != s.after.from {
		return true
	}
	s.equal++
	s.kept++
	return s.equal <= s.after.given
}
