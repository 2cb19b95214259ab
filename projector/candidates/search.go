package candidates

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// search is one run. It holds only the present combination, and candidates that
// several anchors could give.
type search struct {
	*meter
	world *World
	req   *Request
	plan  *plan
	yield func(*Candidate) bool

	found  int
	ended  bool  // the caller or the limit wants no more
	vain   int   // anchors that lack something
	failed error // of inOrder

	anchor  uint32
	root    *ledger.Provider
	lists   [][]source // per kind, under the present anchor
	sources [][]source // per slot: its kind's, or the same in an order of its own
	chosen  []source   // chosen so far, per slot
	taken   []Use      // sums of the choices so far
	skip    int        // candidates of each anchor to skip
	take    int        // candidates of each anchor to find after these; 0: all
	draw    *rand.Rand
	seen    map[string]bool // candidates of sharing providers alone
	out     Candidate
	forests forests
	units   []units // scratch of copiesOf
	// scratch of sumsSuffice
	joint, merged []shared

	// guarded: nothing is chosen any more that leaves something which cannot be served.
	// That is checked once the first choices of an anchor have come to nothing: mostly
	// they do not.
	guarded  bool
	hopeless bool // the anchor cannot serve the request
	members  []member
	at       map[uint32]int // places in members, by number
	gathered bool           // members is of the present anchor
	pools    []pool         // from which members draw
	counters []string       // of all pools
	draws    [][]int64      // per kind and counter: what a group draws at least
	// thrifty: sources that draw less from counters come first.
	thrifty bool
	// best, if set, wants only some of the candidates.
	best *selection
}

// Search finds candidates and passes each to yield until yield returns false. The
// candidate is valid until yield returns. The same request against the same
// providers finds the same candidates in the same order.
func Search(ctx context.Context, w *World, req *Request, yield func(*Candidate) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m := &meter{ctx: ctx, req: req}
	p, err := w.plan(req, m)
	if err != nil {
		return err
	}
	return newSearch(m, w, req, p, yield).run()
}

func newSearch(m *meter, w *World, req *Request, p *plan, yield func(*Candidate) bool) *search {
	return &search{
		meter: m, world: w, req: req, plan: p, yield: yield,
		lists: make([][]source, len(p.kinds)), sources: make([][]source, len(p.slots)),
		seen: make(map[string]bool), at: make(map[uint32]int), forests: forests{world: w},
		out: Candidate{Groups: make([][]*ledger.Provider, len(req.Groups))},
	}
}

// run visits the anchors in the order that the request wants.
func (s *search) run() error {
	if len(s.plan.slots) == 0 {
		return nil
	}
	anchors := iter.Seq[uint32](s.inOrder)
	if s.req.Shuffle {
		if err := s.world.narrow(s.plan, s.req, s.meter); err != nil {
			return err
		}
		anchors = slices.Values(s.plan.shuffled(s.req.Seed))
	}
	if s.req.Order == DepthFirst {
		_, err := s.visit(anchors)
		return err
	}
	// Each round skips what the rounds before have found and finds as many again
	// and one more, so that nothing is found more than twice.
	for s.take = 1; !s.ended; s.skip, s.take = s.skip+s.take, 2*s.take {
		more, err := s.visit(anchors)
		if err != nil || len(more) == 0 {
			return err
		}
		anchors = slices.Values(more)
	}
	return nil
}

// inOrder yields the anchors in the order of their creation. Those whose trees lack something
// are left out once as many had nothing as can be looked at in the time that this takes.
func (s *search) inOrder(yield func(uint32) bool) {
	patience := s.world.costOfNarrow(s.plan)
	anchors := s.plan.anchors.cursor()
	for number, more := anchors.next(0); more; number, more = anchors.next(number + 1) {
		if s.vain > patience && patience > 0 {
			patience = 0
			if s.failed = s.world.narrow(s.plan, s.req, s.meter); s.failed != nil {
				return
			}
			anchors = s.plan.anchors.cursor()
			if number, more = anchors.next(number); !more {
				return
			}
		}
		if !yield(number) {
			return
		}
	}
}

// visit finds candidates under each anchor, and returns the anchors that may have
// more.
func (s *search) visit(anchors iter.Seq[uint32]) (more []uint32, err error) {
	for anchor := range anchors {
		s.anchor, s.root = anchor, s.world.entries.get(anchor).p
		full, err := s.visitAnchor()
		if err != nil || s.ended {
			return nil, err
		}
		if full {
			more = append(more, anchor)
		}
	}
	return more, s.failed
}

// visitAnchor reports whether it stopped because it had found enough here.
func (s *search) visitAnchor() (full bool, err error) {
	for k := range s.plan.kinds {
		if err := s.findSources(k); err != nil || !s.suffice(k) {
			s.vain++
			return false, err
		}
	}
	if suffice, err := s.sumsSuffice(); err != nil || !suffice {
		s.vain++
		return false, err
	}
	if s.req.Shuffle {
		s.draw = rand.New(rand.NewPCG(s.req.Seed, uint64(s.anchor)+1))
	}
	for i := range s.plan.slots {
		if list := s.lists[s.plan.slots[i].kind]; s.draw == nil {
			s.sources[i] = list
		} else {
			s.sources[i] = append(s.sources[i][:0], list...)
			s.draw.Shuffle(len(list), func(a, b int) {
				s.sources[i][a], s.sources[i][b] = s.sources[i][b], s.sources[i][a]
			})
		}
	}
	s.chosen, s.taken = s.chosen[:0], s.taken[:0]
	s.guarded, s.hopeless, s.gathered = false, false, false
	a := &visit{skip: s.skip, left: s.take}
	err = s.choose(a)
	return a.full, err
}

// visit counts the candidates of one anchor.
type visit struct {
	skip int // candidates still to be skipped
	left int // candidates still to be found, if take is set
	full bool
	// reached counts the candidates come to, also those that are skipped or not wanted.
	reached int
}

// choose fills the next slot in every way. Conditions that later choices can only
// make worse are checked at once.
func (s *search) choose(a *visit) error {
	if err := s.step(); err != nil {
		return err
	}
	i := len(s.chosen)
	if i == len(s.plan.slots) {
		return s.emit(a)
	}
	cost := s.costOfChoice(i)
	for _, src := range s.sources[i] {
		if err := s.work(cost); err != nil {
			return err
		}
		before, guarded := len(s.taken), s.guarded
		if s.fill(i, src) {
			s.chosen = append(s.chosen, src)
			if s.groupHolds(i) {
				if err := s.chooseNext(a); err != nil {
					return err
				}
			}
			s.chosen = s.chosen[:i]
		}
		s.taken = s.taken[:before]
		if s.ended || a.full || s.hopeless {
			return nil
		}
		if s.guarded && !guarded {
			if ok, err := s.possible(); !ok || err != nil {
				return err
			}
		}
	}
	return nil
}

// chooseNext goes on with the slots behind the one that was filled last. If that comes to
// nothing for the first time under the anchor, it is known from then on what can be served.
func (s *search) chooseNext(a *visit) error {
	if s.best == nil || !s.guarded && a.reached == 0 && s.best.hopes(len(s.chosen)) {
		return s.goOn(a)
	}
	key, unwanted, err := s.best.unwanted()
	if err != nil || unwanted {
		a.reached++
		return err
	}
	kept := s.best.kept
	if err = s.goOn(a); err == nil {
		s.best.explored(key, s.best.kept > kept)
	}
	return err
}

func (s *search) goOn(a *visit) error {
	if s.guarded && len(s.chosen) < len(s.plan.slots) {
		if ok, err := s.possible(); !ok || err != nil {
			return err
		}
	}
	reached := a.reached
	if err := s.choose(a); err != nil || a.reached > reached || s.guarded {
		return err
	}
	s.guarded = true
	all := s.chosen
	s.chosen = s.chosen[:0]
	ok, err := s.possible()
	s.chosen, s.hopeless = all, !ok
	return err
}

// costOfChoice is the work of one source for a slot, which is compared with
// everything chosen and taken so far.
func (s *search) costOfChoice(i int) int {
	slot := &s.plan.slots[i]
	cost := 1 + (len(s.chosen)+len(slot.resources)*len(s.taken))/16
	if slot.last {
		g := &s.req.Groups[slot.group]
		if g.Suffix == "" {
			cost += len(g.Required) * (1 + len(s.chosen)/4)
		}
		cost += len(s.req.SameSubtree) * (1 + len(s.chosen)*len(s.chosen)/4)
	}
	return cost
}

// fill takes a slot's amounts from a source, if there is room beside what is
// taken already. taken is a stack of running sums: the newest for a provider and
// class counts.
func (s *search) fill(i int, src source) bool {
	slot := &s.plan.slots[i]
	if s.req.Isolate && s.req.Groups[slot.group].Suffix != "" {
		for j, other := range s.chosen {
			if other.number == src.number && s.req.Groups[s.plan.slots[j].group].Suffix != "" {
				return false
			}
		}
	}
	if !s.req.Nested && s.world.Nested() && len(slot.resources) > 0 {
		for j, other := range s.chosen {
			if other.number != src.number && other.p.Root == src.p.Root && len(s.plan.slots[j].resources) > 0 {
				return false
			}
		}
	}
	for _, r := range slot.resources {
		sum := r.Amount
		for j := len(s.taken) - 1; j >= 0; j-- {
			if s.taken[j].Provider == src.p && s.taken[j].Class == r.Class {
				sum += s.taken[j].Amount
				inv, _ := src.p.Inventory(r.Class)
				if sum > inv.MaxUnit || float64(inv.Used+sum) > inv.Capacity() {
					return false
				}
				break
			}
		}
		s.taken = append(s.taken, Use{Provider: src.p, Class: r.Class, Amount: sum})
	}
	return len(src.p.Draws) == 0 || s.forests.admit(src.p, slot.resources, s.taken)
}

// groupHolds makes the checks that are possible once a group is complete.
func (s *search) groupHolds(i int) bool {
	slot := &s.plan.slots[i]
	if !slot.last {
		return true
	}
	g := &s.req.Groups[slot.group]
	if g.Suffix == "" && !s.coversTraits(slot.group, g.Required) {
		return false
	}
	for _, suffixes := range s.req.SameSubtree {
		if g.Suffix != "" && slices.Contains(suffixes, g.Suffix) && !s.shareSubtree(suffixes) {
			return false
		}
	}
	return true
}

// coversTraits reports whether the sources of the group without a suffix have the
// required traits together.
func (s *search) coversTraits(group int, required [][]string) bool {
	for _, anyOf := range required {
		covered := false
		for j, src := range s.chosen {
			covered = covered || s.plan.slots[j].group == group && hasAny(src.p, anyOf)
		}
		if !covered {
			return false
		}
	}
	return true
}

// shareSubtree checks same_subtree once all its groups are chosen: one of their
// providers must be an ancestor of all the others.
func (s *search) shareSubtree(suffixes []string) bool {
	var members []*ledger.Provider
	for j, src := range s.chosen {
		if suffix := s.req.Groups[s.plan.slots[j].group].Suffix; suffix != "" && slices.Contains(suffixes, suffix) {
			members = append(members, src.p)
		}
	}
	if len(members) < len(suffixes) {
		return true // not all chosen yet
	}
	return slices.ContainsFunc(members, func(top *ledger.Provider) bool {
		return !slices.ContainsFunc(members, func(p *ledger.Provider) bool { return !s.below(p, top) })
	})
}

// below reports whether a provider is top or a descendant of top.
func (s *search) below(p, top *ledger.Provider) bool {
	for p != top {
		if p.Parent.IsNil() {
			return false
		}
		p, _ = s.world.Provider(p.Parent)
	}
	return true
}

// passOnSteps is the work of writing and remembering one use or one provider of a
// candidate.
const passOnSteps = 8

// emit passes a complete candidate on if it is new.
func (s *search) emit(a *visit) error {
	a.reached++
	if a.skip > 0 {
		a.skip--
		return nil
	}
	if err := s.work(passOnSteps * (1 + len(s.chosen) + len(s.taken))); err != nil {
		return err
	}
	if !s.repeated() {
		s.assemble()
		s.found++
		s.ended = !s.yield(&s.out) || s.req.Limit > 0 && s.found >= s.req.Limit
	}
	a.left--
	a.full = s.take > 0 && a.left == 0
	return nil
}

// repeated reports whether another anchor gave the candidate before. That is
// possible only for candidates of sharing providers alone: any other provider
// ties a candidate to its tree.
func (s *search) repeated() bool {
	for _, src := range s.chosen {
		if !src.p.HasTrait(SharingTrait) {
			return false
		}
	}
	key := make([]byte, 0, len(s.chosen)*4)
	for _, src := range s.chosen {
		key = append(key, byte(src.number), byte(src.number>>8), byte(src.number>>16), byte(src.number>>24))
	}
	if s.seen[string(key)] {
		return true
	}
	s.seen[string(key)] = true
	return false
}

// assemble fills out with the choices.
func (s *search) assemble() {
	s.out.Uses = s.out.Uses[:0]
	for i := range s.out.Groups {
		s.out.Groups[i] = s.out.Groups[i][:0]
	}
	for j, src := range s.chosen {
		slot := &s.plan.slots[j]
		if members := s.out.Groups[slot.group]; !slices.Contains(members, src.p) {
			s.out.Groups[slot.group] = append(members, src.p)
		}
	}
	for j := len(s.taken) - 1; j >= 0; j-- {
		if use := s.taken[j]; !slices.ContainsFunc(
			s.out.Uses, func(u Use) bool { return u.Provider == use.Provider && u.Class == use.Class },
		) {
			s.out.Uses = append(s.out.Uses, use)
		}
	}
	slices.Reverse(s.out.Uses)
}

// fits checks each resource alone against what is free.
func fits(p *ledger.Provider, resources []Resource) bool {
	for _, r := range resources {
		inv, ok := p.Inventory(r.Class)
		if !ok || float64(inv.Used)+float64(r.Amount) > inv.Capacity() ||
			r.Amount < inv.MinUnit || r.Amount > inv.MaxUnit || r.Amount%inv.StepSize != 0 {
			return false
		}
	}
	return true
}

func hasAny(p *ledger.Provider, traits []string) bool { return slices.ContainsFunc(traits, p.HasTrait) }

func memberOfAny(p *ledger.Provider, aggregates []ledger.UUID) bool {
	return slices.ContainsFunc(aggregates, func(id ledger.UUID) bool { return slices.Contains(p.Aggregates, id) })
}

func memberOfAll(p *ledger.Provider, lists [][]ledger.UUID) bool {
	return !slices.ContainsFunc(lists, func(anyOf []ledger.UUID) bool { return !memberOfAny(p, anyOf) })
}
