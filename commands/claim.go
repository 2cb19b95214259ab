package commands

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Claim chooses and allocates in one: the ledger finds what each consumer asks
// for, the best by the preference, and gives it to them. All of them get it, or
// none. What a consumer held before is replaced.
//
// The search is made before the command is decided, on the newest index of
// providers (see package claiming). The decision takes the best that still fits; if none
// does, it is searched again.
type Claim struct {
	demand.Claim

	found  *demand.Found // nil: it was not searched
	search SearchIn      // how it is then
}

func (c *Claim) consumers() []ledger.UUID {
	members := c.Members()
	ids := make([]ledger.UUID, len(members))
	for i := range members {
		ids[i] = members[i].Consumer
	}
	for i := range c.For {
		if from := c.For[i].FromReservation; from != nil {
			ids = append(ids, *from)
		}
	}
	return ids
}

func (*Claim) onlyHoldings() {}

func (c *Claim) check() *demand.Rejection {
	return cmp.Or(c.Check(), checkAllocations(allocationsOf(c.Members())))
}

// allocationsOf are those of a claim's consumers, without what they are to hold.
func allocationsOf(members []demand.ClaimConsumer) []ConsumerAllocations {
	list := make([]ConsumerAllocations, len(members))
	for i := range members {
		one := &members[i]
		list[i] = ConsumerAllocations{
			Consumer: one.Consumer, Project: one.Project, User: one.User, Type: one.Type,
			Generation: one.Generation, AnyGeneration: one.AnyGeneration,
		}
	}
	return list
}

func (c *Claim) forProject(s *ledger.State, project string) *demand.Rejection {
	if c.Prefer != nil {
		for i := range c.Prefer.Near {
			for _, id := range c.Prefer.Near[i].Consumers {
				if r := checkHolder(s, id, project); r != nil {
					return r
				}
			}
		}
	}
	return checkOwners(s, allocationsOf(c.Members()), project)
}

// decide takes the best of what was found that still
// fits: whose providers are as the search saw them, but for what is used.
func (c *Claim) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	for _, list := range c.Lists() {
		for i := range list {
			if r := list[i].CheckTraits(s); r != nil {
				return nil, r
			}
		}
	}
	if len(c.Alternatives) > 0 {
		return c.decideAlternatives(s)
	}
	prefer, r := c.preferenceIn(s)
	if r == nil {
		r = prefer.CheckTraits(s)
	}
	if r != nil {
		return nil, r
	}
	members := c.Members()
	if r := cmp.Or(newAllocator(s, allocationsOf(members)).checkGenerations(), c.mayDraw(s)); r != nil {
		return nil, r
	}
	found, r := c.foundIn(s)
	if r != nil {
		return nil, r
	}
	if len(found.Choices) == 0 {
		if r := c.checkNames(s, prefer); r != nil {
			return nil, r
		}
	} else if !found.By(prefer, s) {
		return nil, found.Nothing()
	}
	for i := range found.Choices {
		if !found.Choices[i].Unchanged(s) || !obeyed(s, prefer, &found.Choices[i]) {
			continue
		}
		events, rejection := c.take(s, found, i, members)
		if rejection == nil {
			rejection = roomFor(s, events)
		}
		if rejection == nil || !passedOver[rejection.Code] && !ofAggregate(rejection) {
			return events, rejection
		}
	}
	return nil, found.Nothing()
}

// preferenceIn is what the claim prefers as a State has it.
func (c *Claim) preferenceIn(s *ledger.State) (*demand.ClaimPreference, *demand.Rejection) {
	prefer, r, err := c.Prefer.Expand(demand.NamedIn(s).Preference)
	if err != nil {
		return nil, demand.Invalid("prefer", "%v", err)
	}
	return prefer, r
}

// checkNames says why a claim cannot be searched for.
func (c *Claim) checkNames(s *ledger.State, prefer *demand.ClaimPreference) *demand.Rejection {
	for i := range c.Requests {
		req, r := c.Requests[i].Resolve(s.Classes())
		if r == nil {
			_, r = prefer.Resolve(s.Classes(), req, 0)
		}
		if r != nil {
			return r
		}
	}
	if _, r := c.Asked(prefer); r != nil {
		return r
	}
	_, _, r, _ := demand.InTopology(c.Gang, c.Size(), demand.NamedIn(s).Topology) // a State has no errors
	return r
}

// passedOver are the rejections after which the next candidate is tried.
var passedOver = map[demand.Code]bool{
	demand.CodeCapacityExceeded: true, demand.CodeProviderUnknown: true,
	demand.CodeNoInventory: true, demand.CodeUnitConstraint: true,
}

// take decides that the claim gets a choice.
func (c *Claim) take(
	s *ledger.State, found *demand.Found, choice int, members []demand.ClaimConsumer,
) ([]ledger.Event, *demand.Rejection) {
	want := allocationsOf(members)
	for i := range want {
		want[i].Resources = resourcesOf(s.Classes(), found.Choices[choice].Members[i].Uses)
	}
	a := newAllocator(s, want)
	a.beside = !c.OwnFree
	if r := a.checkProvidersExist(); r != nil {
		return nil, r
	}
	rest, rejection := a.draw(members)
	if rejection != nil {
		return nil, rejection
	}
	events, rejection := a.events()
	if rejection != nil {
		return nil, rejection
	}
	for i := range want {
		events[i] = c.claimed(s, found, choice, i, &members[i], events[i])
	}
	return append(rest, events...), nil
}

// claimed adds to what a consumer holds why that is.
func (c *Claim) claimed(
	s *ledger.State, found *demand.Found, choice, member int, one *demand.ClaimConsumer, event ledger.Event,
) ledger.Event {
	chosen := &found.Choices[choice].Members[member]
	claimed := ledger.AllocationsClaimed{
		Asked: found.Asked[one.Request], Mappings: mappingsOf(&c.Requests[one.Request], chosen),
		Score: chosen.Score, Seed: found.Seed, AsOf: found.AsOf, PassedOver: uint64(choice), From: one.FromReservation,
		Alternative: uint64(found.Alternative), Earlier: found.Earlier,
	}
	switch event := event.(type) {
	case ledger.AllocationsReplaced:
		claimed.AllocationsReplaced = event
	case ledger.AllocationsReserved:
		claimed.AllocationsReplaced, claimed.Until = event.AllocationsReplaced, event.Until
	}
	for i := choice + 1; i < len(found.Choices) && len(claimed.Alternates) < c.Alternates; i++ {
		other := &found.Choices[i].Members[member]
		alternate := ledger.Alternate{Mappings: mappingsOf(&c.Requests[0], other), Score: other.Score}
		for _, r := range resourcesOf(s.Classes(), other.Uses) {
			alternate.Allocations = append(alternate.Allocations, ledger.AllocationRecord(r))
		}
		claimed.Alternates = append(claimed.Alternates, alternate)
	}
	return claimed
}

func resourcesOf(classes *ledger.ClassTable, uses []wanted.Use) []ProviderAllocation {
	list := make([]ProviderAllocation, len(uses))
	for i, use := range uses {
		list[i] = ProviderAllocation{Provider: use.Provider.UUID, Class: classes.Name(use.Class), Amount: use.Amount}
	}
	return list
}

func mappingsOf(q *demand.CandidateRequest, chosen *wanted.Ranked) []ledger.GroupMapping {
	list := make([]ledger.GroupMapping, len(chosen.Groups))
	for i, members := range chosen.Groups {
		list[i] = ledger.GroupMapping{Suffix: q.Groups[i].Suffix, Providers: make([]ledger.UUID, len(members))}
		for j, p := range members {
			list[i].Providers[j] = p.UUID
		}
	}
	return list
}

// SearchIn searches a State for what a claim asks for.
type SearchIn func(*ledger.State, *demand.Claim) (*demand.Found, *demand.Rejection)

// foundIn is what was found before the decision, or else is found in a State.
func (c *Claim) foundIn(s *ledger.State) (*demand.Found, *demand.Rejection) {
	switch {
	case c.found != nil:
		return c.found, nil
	case c.search != nil:
		return c.search(s, &c.Claim)
	}
	return nil, new(demand.Found).Nothing() // so it is searched
}

// decideAlternatives takes the first alternative for which something was found, unless the limit of a project
// is against it: then one behind it is searched for, if there is one.
func (c *Claim) decideAlternatives(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	found, r := c.foundIn(s)
	if r != nil {
		return nil, r
	}
	one := &Claim{Claim: *c.Only(found.Alternative), found: found}
	events, r := one.decide(s)
	if r == nil {
		r = withinLimits(s, events)
	}
	if r == nil || r.Code != demand.CodeOverLimit || ofAggregate(r) || found.Alternative == len(c.Alternatives)-1 {
		return events, r
	}
	if c.found == nil {
		return c.Without(found).decideAlternatives(s)
	}
	return nil, &demand.Rejection{Code: demand.CodeClaimOutdated, Message: r.Message, Beyond: found}
}

// Without returns the claim without the alternative that was found.
func (c *Claim) Without(found *demand.Found) *Claim {
	out := *c
	out.Beyond = append(slices.Clone(c.Beyond), found.Alternative)
	return &out
}

// Claims are the claims that a command is or holds: they must be searched before
// it is decided.
func Claims(c Command) (claims []*Claim) {
	switch c := c.(type) {
	case *Claim:
		return []*Claim{c}
	case *Batch:
		for _, one := range c.Commands {
			if claim, is := one.(*Claim); is {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

// Overlaid finds what has a name as each of a command's claims will: one of a batch sees what the
// commands before it set.
func Overlaid(c Command, named demand.Named) []demand.Named {
	batch, is := c.(*Batch)
	if !is {
		return []demand.Named{named}
	}
	var list []demand.Named
	for _, one := range batch.Commands {
		switch one := one.(type) {
		case *Claim:
			list = append(list, named)
		case *SetPreference:
			named.Preference = one.over(named.Preference)
		case *SetTopology:
			named.Topology = one.over(named.Topology)
		}
	}
	return list
}

// over finds preferences as they are once this one is set.
func (c *SetPreference) over(named demand.NamedPreferences) demand.NamedPreferences {
	return func(name string) (*ledger.Preference, bool, error) {
		if name != c.Name {
			return named(name)
		}
		if c.Prefer == nil {
			return nil, false, nil
		}
		doc, r := c.Prefer.Document()
		if r != nil {
			return nil, false, &demand.Rejected{Rejection: r}
		}
		return &ledger.Preference{Name: name, Prefer: doc}, true, nil
	}
}

// over finds topologies as they are once this one is set.
func (c *SetTopology) over(named demand.NamedTopologies) demand.NamedTopologies {
	return func(name string) (*ledger.Topology, bool, error) {
		if name != c.Name {
			return named(name)
		}
		if c.Topology == nil {
			return nil, false, nil
		}
		kept := c.Topology.Kept(name)
		return &kept, true, nil
	}
}

// WithFound is a command with what was found for each of its claims.
func WithFound(c Command, found []*demand.Found) Command {
	return withClaims(c, func(one *Claim) { one.found, found = found[0], found[1:] })
}

// Searching is a command whose claims are searched for while it is decided: for those who only
// want to know what would be.
func Searching(c Command, search SearchIn) Command {
	return withClaims(c, func(one *Claim) { one.search = search })
}

// withClaims is a command with copies of its claims that are changed.
func withClaims(c Command, change func(*Claim)) Command {
	switch c := c.(type) {
	case *Claim:
		out := *c
		change(&out)
		return &out
	case *Batch:
		out := &Batch{Commands: make([]Command, len(c.Commands))}
		for i, one := range c.Commands {
			if _, is := one.(*Claim); is {
				one = withClaims(one, change)
			}
			out.Commands[i] = one
		}
		return out
	}
	return c
}

// A claim may draw on reservations: what its consumers get is taken off what those hold, in
// one record. Several consumers may draw on the same one; each gets all that it asks for from
// the one that it names.

// mayDraw finds a consumer whose project may not draw on the reservation that it names.
func (c *Claim) mayDraw(s *ledger.State) *demand.Rejection {
	for i := range c.For {
		if from := c.For[i].FromReservation; from != nil {
			reserved, _ := s.Consumer(*from)
			if r := demand.MayDraw(reserved, *from, c.For[i].Project); r != nil {
				return r
			}
		}
	}
	return nil
}

// draw takes what members get off the reservations that they name, and returns what those
// hold from then on.
func (a *allocator) draw(members []demand.ClaimConsumer) (rest []ledger.Event, r *demand.Rejection) {
	var drawn []*ledger.Consumer
	for i := range members {
		from := members[i].FromReservation
		if from == nil {
			continue
		}
		at := slices.IndexFunc(drawn, func(c *ledger.Consumer) bool { return c.UUID == *from })
		if at < 0 {
			reserved, _ := a.state.Consumer(*from)
			left := *reserved
			left.Allocations = slices.Clone(reserved.Allocations)
			at, drawn = len(drawn), append(drawn, &left)
		}
		for j := range a.allocations[i].Resources {
			if r := a.drawOne(drawn[at], members[i].Consumer, &a.allocations[i].Resources[j]); r != nil {
				return nil, r
			}
		}
	}
	for _, one := range drawn {
		rest = append(rest, keeping(a.state, one, func(held ledger.Allocation) bool { return held.Amount > 0 }))
	}
	return rest, nil
}

// drawOne takes an amount off what is left of a reservation.
func (a *allocator) drawOne(left *ledger.Consumer, consumer ledger.UUID, res *ProviderAllocation) *demand.Rejection {
	class, _ := a.state.Classes().ID(res.Class)
	p, _ := a.provider(res.Provider)
	inv, _ := p.Inventory(class)
	at := slices.IndexFunc(left.Allocations, func(l ledger.Allocation) bool {
		return l.Provider == res.Provider && l.Class == class
	})
	if at < 0 || left.Allocations[at].Amount < res.Amount {
		return capacityExceeded(consumer, res, inv, inv.Used)
	}
	left.Allocations[at].Amount -= res.Amount
	a.count(inventoryKey{res.Provider, class}, inv.Used).drawn += res.Amount
	return nil
}

// obeyed reports whether a choice obeys the rules about other consumers: those
// may have moved since it was found.
func obeyed(s *ledger.State, prefer *demand.ClaimPreference, choice *demand.Choice) bool {
	if !prefer.Strict() {
		return true
	}
	list, _ := prefer.Nearness(func(id ledger.UUID) ([]ledger.Allocation, error) { // a State has no errors
		if c, exists := s.Consumer(id); exists {
			return c.Allocations, nil
		}
		return nil, nil
	})
	for i := range list {
		if list[i].Rule == wanted.PreferNear {
			continue
		}
		there := placesOf(s, list[i].Providers)
		for j := range choice.Members {
			here := placesOf(s, providersOf(&choice.Members[j]))
			if len(there) > 0 && anyNear(list[i].Reach, here, there) != (list[i].Rule == wanted.RequireNear) {
				return false
			}
		}
	}
	return true
}

func providersOf(chosen *wanted.Ranked) (ids []ledger.UUID) {
	for _, p := range chosen.Providers() {
		ids = append(ids, p.UUID)
	}
	return ids
}

// place is a provider with the root above it.
type place struct{ provider, root *ledger.Provider }

// placesOf are providers that do not share.
func placesOf(s *ledger.State, ids []ledger.UUID) (places []place) {
	for _, id := range ids {
		if p, exists := s.Provider(id); exists && !p.HasTrait(wanted.SharingTrait) {
			root, _ := s.Provider(p.Root)
			places = append(places, place{p, root})
		}
	}
	return places
}

func anyNear(reach wanted.Reach, here, there []place) bool {
	return slices.ContainsFunc(here, func(a place) bool {
		return slices.ContainsFunc(there, func(b place) bool {
			switch reach {
			case wanted.SameProvider:
				return a.provider.UUID == b.provider.UUID
			case wanted.SameTree:
				return a.root.UUID == b.root.UUID
			}
			return slices.ContainsFunc(a.aggregates(), func(id ledger.UUID) bool {
				return slices.Contains(b.aggregates(), id)
			})
		})
	})
}

func (p place) aggregates() []ledger.UUID {
	return slices.Concat(p.provider.Aggregates, p.root.Aggregates)
}
