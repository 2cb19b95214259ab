package commands_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// claim asks for amounts of classes for some consumers of project p.
func claim(resources map[string]int64, consumers ...ledger.UUID) *commands.Claim {
	c := &commands.Claim{Claim: demand.Claim{
		Requests: []demand.CandidateRequest{{Groups: []demand.RequestGroup{{Resources: resources}}}},
	}}
	for _, id := range consumers {
		c.For = append(c.For, demand.ClaimConsumer{Consumer: id, Project: "p", User: "u"})
	}
	return c
}

// claimedOf is what a claim for VCPU of the host is answered with.
func claimedOf(
	w *world, a commands.ConsumerAllocations, asked ledger.Document, score float64,
) ledger.AllocationsClaimed {
	return ledger.AllocationsClaimed{
		AllocationsReplaced: replaced(a), Asked: asked, Score: score, AsOf: w.State().Head().Sequence,
		Mappings: []ledger.GroupMapping{{Providers: []ledger.UUID{host}}},
	}
}

func claimDecisions(w *world) []decision {
	cores := func(n int64) map[string]int64 { return map[string]int64{vcpu: n} }
	const askedTwo, askedFour = `{"request":{"groups":[{"resources":{"VCPU":2}}]}}`, `{"request":{"groups":[{"resources":{"VCPU":4}}]}}`
	packed := claim(cores(2), fresh)
	packed.Prefer = &demand.ClaimPreference{Order: demand.OrderPack, Seed: ptr[uint64](5)}
	byPack := claimedOf(w, allocate(fresh, host, vcpu, 2),
		`{"prefer":{"order":"pack","seed":5},"request":{"groups":[{"resources":{"VCPU":2}}]}}`, -0.5)
	byPack.Seed = 5
	resized := claim(cores(4), holder)
	resized.For[0].Generation, resized.OwnFree = ptr(w.generation(holder)), true
	moved := claim(cores(4), reserved)
	moved.For[0].Generation = ptr(w.generation(reserved))
	kept := claimedOf(w, allocate(reserved, host, vcpu, 4), askedFour, 0)
	kept.Until = 60e9
	theirs := ledger.UUID{15: 5}
	tight := steps{claim(cores(2), theirs)}
	besideOwn := claim(cores(4), holder)
	besideOwn.For[0].Generation = resized.For[0].Generation
	inPlace := claimedOf(w, allocate(holder, host, vcpu, 4), `{"own_free":true,"request":{"groups":[{"resources":{"VCPU":4}}]}}`, 0)
	inPlace.AsOf++
	noTrait, noClass, noWeight := claim(cores(2), fresh), claim(map[string]int64{none: 1}, fresh), claim(cores(2), fresh)
	noTrait.Requests[0].RootRequired = []string{none}
	noWeight.Prefer = &demand.ClaimPreference{Weights: map[string]demand.Weight{none: 1}}
	nowhere := rejected(demand.CodeNoCandidates, demand.Facts{AsOf: w.State().Head().Sequence})
	node := claim(cores(2), deployed)
	node.For[0].AnyGeneration = true
	either := func(lists ...map[string]int64) *commands.Claim {
		c := claim(lists[0], fresh)
		for _, amounts := range lists {
			c.Alternatives = append(c.Alternatives, claim(amounts, fresh).Requests)
		}
		c.Requests = nil
		return c
	}
	both := either(cores(2), cores(4))
	both.Requests = claim(cores(2), fresh).Requests
	second := claimedOf(w, allocate(fresh, host, vcpu, 4), askedFour, 0)
	second.Alternative, second.Earlier = 1, []string{"nothing satisfied it"}
	empty := either(cores(2), cores(4))
	empty.Alternatives[1] = nil
	return slices.Concat(badClaims(), drawDecisions(w), []decision{
		{"the first alternative that fits", nil, either(cores(8), cores(4), cores(2)), happens(second, advanced(host, 7))},
		{"the first alternative", nil, either(cores(2), cores(4)),
			happens(claimedOf(w, allocate(fresh, host, vcpu, 2), askedTwo, 0), advanced(host, 7))},
		{"no alternative", nil, either(cores(8), cores(6)), nowhere},
		{"requests and alternatives", nil, both, invalid("alternatives")},
		{"an empty alternative", nil, empty, invalid("requests")},
		{"seventeen alternatives", nil, either(slices.Repeat([]map[string]int64{cores(2)}, 17)...), invalid("alternatives")},
		{"no such class in a later alternative", nil, either(cores(2), map[string]int64{none: 1}),
			"class_unknown{Class:CUSTOM_NONE}"},
		{"a new consumer", nil, claim(cores(2), fresh),
			happens(claimedOf(w, allocate(fresh, host, vcpu, 2), askedTwo, 0), advanced(host, 7))},
		{"the one with the least left", nil, packed, happens(byPack, advanced(host, 7))},
		{"more than is free, where what it holds counts as free", tight, resized, happens(inPlace, advanced(host, 8))},
		{"more than is free beside what it holds", tight, besideOwn,
			rejected(demand.CodeNoCandidates, demand.Facts{AsOf: w.State().Head().Sequence + 1})},
		{"a reservation keeps its end", nil, moved, happens(kept, advanced(host, 7))},
		{"two at once", nil, claim(cores(2), fresh, theirs), happens(
			claimedOf(w, allocate(fresh, host, vcpu, 2), askedTwo, 0),
			claimedOf(w, allocate(theirs, host, vcpu, 2), askedTwo, 0), advanced(host, 7))},
		{"more than is free", steps{claim(cores(4), theirs)}, claim(cores(2), fresh),
			rejected(demand.CodeNoCandidates, demand.Facts{AsOf: w.State().Head().Sequence + 1})},
		{"three at once", nil, claim(cores(2), fresh, theirs, ledger.UUID{15: 6}), nowhere},
		{"for none", nil, claim(cores(2)), invalid("for")},
		{"a consumer that holds something", nil, claim(cores(2), holder),
			consumerConflict(holder, ptr(w.generation(holder)), nil)},
		{"no such trait", nil, noTrait, "trait_unknown{Names:[CUSTOM_NONE]}"},
		{"no such class", nil, noClass, "class_unknown{Class:CUSTOM_NONE}"},
		{"no such class to weigh", nil, noWeight, "class_unknown{Class:CUSTOM_NONE}"},
		{"a consumer that is a node's allocation", steps{nodeProviders(true)}, node,
			"node_is_provider{Consumer:deployed Node:busyNode Allocation:deployed}"},
	})
}

// badClaims are claims that no State satisfies.
func badClaims() (rows []decision) {
	row := func(about string, want string, change func(*commands.Claim)) {
		c := claim(map[string]int64{vcpu: 2}, fresh)
		change(c)
		rows = append(rows, decision{about, nil, c, want})
	}
	request := func(about, field string, change func(*demand.CandidateRequest)) {
		row(about, invalid(field), func(c *commands.Claim) { change(&c.Requests[0]) })
	}
	prefers := func(about string, p demand.ClaimPreference) {
		row(about, invalid("prefer"), func(c *commands.Claim) { c.Prefer = &p })
	}
	near := func(about string, n demand.NearConsumers) {
		if n.Consumers == nil {
			n.Consumers = []ledger.UUID{holder}
		}
		prefers(about, demand.ClaimPreference{Near: []demand.NearConsumers{n}})
	}
	row("no request", invalid("requests"), func(c *commands.Claim) { c.Requests = nil })
	row("another request", invalid("request"), func(c *commands.Claim) { c.For[0].Request = 1 })
	row("a consumer twice", invalid("allocations"), func(c *commands.Claim) { c.For = append(c.For, c.For[0]) })
	row("too many consumers", invalid("for"), func(c *commands.Claim) {
		c.For = make([]demand.ClaimConsumer, demand.MaxClaimConsumers+1)
	})
	row("too many alternates", invalid("alternates"), func(c *commands.Claim) { c.Alternates = 33 })
	row("a request larger than records keep", rejected(demand.CodeTooLarge, demand.Facts{
		SizeBytes: 74167, LimitBytes: ledger.MaxDocumentBytes,
	}), func(c *commands.Claim) {
		for i := range 1900 {
			id := ledger.UUID{13: 1, 14: byte(i >> 8), 15: byte(i)}
			c.Requests[0].Groups[0].NotMemberOf = append(c.Requests[0].Groups[0].NotMemberOf, id)
		}
	})
	request("no group", "groups", func(q *demand.CandidateRequest) { q.Groups = nil })
	request("nothing", "groups", func(q *demand.CandidateRequest) { q.Groups[0].Resources = nil })
	request("amount 0", "groups", func(q *demand.CandidateRequest) { q.Groups[0].Resources[vcpu] = 0 })
	request("required and forbidden", "root_required", func(q *demand.CandidateRequest) {
		q.RootRequired, q.RootForbidden = []string{used}, []string{used}
	})
	request("a subtree of no group", "same_subtree", func(q *demand.CandidateRequest) {
		q.SameSubtree = [][]string{{"_x"}}
	})
	prefers("no such order", demand.ClaimPreference{Order: "best"})
	prefers("an order and weights", demand.ClaimPreference{Order: "pack", Weights: map[string]demand.Weight{vcpu: 1}})
	prefers("what is no number", demand.ClaimPreference{Traits: map[string]demand.Weight{used: demand.Weight(math.NaN())}})
	near("near by nothing", demand.NearConsumers{Weight: 1})
	near("near none", demand.NearConsumers{By: "tree", Weight: 1, Consumers: []ledger.UUID{}})
	near("neither rule nor weight", demand.NearConsumers{By: "tree"})
	near("rule and weight", demand.NearConsumers{By: "tree", Rule: "forbid", Weight: 1})
	near("no such rule", demand.NearConsumers{By: "tree", Rule: "must"})
	near("infinitely near", demand.NearConsumers{By: "tree", Weight: demand.Weight(math.Inf(1))})
	near("near one twice", demand.NearConsumers{By: "tree", Weight: 1, Consumers: []ledger.UUID{holder, holder}})
	near("near too many", demand.NearConsumers{By: "tree", Weight: 1, Consumers: make([]ledger.UUID, 257)})
	return rows
}

// drawing is a claim for VCPU, for consumers of a project, from a reservation.
func drawing(project string, cores int64, from ledger.UUID, consumers ...ledger.UUID) *commands.Claim {
	c := claim(map[string]int64{vcpu: cores}, consumers...)
	for i := range c.For {
		c.For[i].Project, c.For[i].FromReservation = project, &from
	}
	return c
}

// drawDecisions are about claims that draw on the reservation of project p, of 2 VCPU.
func drawDecisions(w *world) []decision {
	first, second, third, last := ledger.UUID{15: 5}, ledger.UUID{15: 6}, ledger.UUID{15: 7}, w.State().Head().Sequence
	got := func(id ledger.UUID, project string, cores int64, asOf uint64) ledger.AllocationsClaimed {
		one := claimedOf(w, allocate(id, host, vcpu, cores), ledger.Document(fmt.Sprintf(`{"request":{"groups":[{"resources":{"VCPU":%d}}]}}`, cores)), 0)
		one.Project, one.From, one.AsOf = project, &reserved, asOf
		return one
	}
	none := func(id ledger.UUID, project string) string {
		return rejected(demand.CodeNoReservation, demand.Facts{Consumer: &id, Project: project})
	}
	nowhere := func(asOf uint64) string { return rejected(demand.CodeNoCandidates, demand.Facts{AsOf: asOf}) }
	anew := reserve(60, w.known(allocate(reserved, host, vcpu, 4)))
	anew.Projects = []string{"q"}
	four := steps{anew}
	full := steps{anew, claim(map[string]int64{vcpu: 2}, third)}
	mixed := drawing("p", 2, reserved, first, second)
	mixed.For[1].FromReservation = nil
	moved := drawing("p", 2, reserved, holder)
	moved.For[0].Generation = ptr(w.generation(holder))
	itself := drawing("p", 2, reserved, reserved)
	itself.For[0].AnyGeneration = true
	apart := drawing("p", 2, reserved, first, second)
	apart.Gang = []demand.GangRule{{By: "provider", Rule: demand.GangApart}}
	counted := drawing("p", 2, reserved, first)
	counted.For[0].Count = 2
	beside := got(second, "p", 2, last)
	beside.From = nil
	left := heldUntil(allocate(reserved, host, vcpu, 2))
	ended := removed(reserved)
	moves := func(n int64) ledger.Event { return advanced(host, 6+n) }
	return []decision{
		{"all of a reservation", nil, drawing("p", 2, reserved, first), happens(ended, got(first, "p", 2, last), moves(1))},
		{"of a reservation", four, drawing("p", 2, reserved, first), happens(left, got(first, "p", 2, last+1), moves(2))},
		{"of a reservation where nothing else is free", full, drawing("p", 2, reserved, first),
			happens(left, got(first, "p", 2, last+2), moves(3))},
		{"more than is reserved, and as much as is free", nil, drawing("p", 4, reserved, first), nowhere(last)},
		{"of one reservation twice", four, drawing("p", 2, reserved, first, second),
			happens(ended, got(first, "p", 2, last+1), got(second, "p", 2, last+1), moves(2))},
		{"a number of consumers of one reservation", four, counted,
			happens(ended, got(first, "p", 2, last+1), got(first.Derive("1"), "p", 2, last+1), moves(2))},
		{"of one reservation for more than it has", four, drawing("p", 2, reserved, first, second, third), nowhere(last + 1)},
		{"a gang apart, of a reservation that is in one place", four, apart, nowhere(last + 1)},
		{"of a reservation, and beside it", nil, mixed, happens(ended, got(first, "p", 2, last), beside, moves(1))},
		{"onto a reservation", nil, moved, happens(ended, got(holder, "p", 2, last), moves(1))},
		{"of a reservation of another project", nil, drawing("q", 2, reserved, first), none(reserved, "q")},
		{"of a reservation that names the project", four, drawing("q", 2, reserved, first),
			happens(left, got(first, "q", 2, last+1), moves(2))},
		{"of no reservation", nil, drawing("p", 2, fresh, first), none(fresh, "p")},
		{"of what is held for good", nil, drawing("p", 2, holder, first), none(holder, "p")},
		{"of a reservation that has ended", steps{&commands.ExpireReservation{Consumer: reserved, Now: 60e9}},
			drawing("p", 2, reserved, first), none(reserved, "p")},
		{"of a reservation that is a consumer of it", nil, itself, invalid("from_reservation")},
		{"of no uuid", nil, drawing("p", 2, ledger.NilUUID, first), invalid("from_reservation")},
		{"two of a batch, of one reservation", four,
			batch(drawing("p", 2, reserved, first), drawing("p", 2, reserved, second)), "invalid{Field:consumer Command:1}"},
	}
}
