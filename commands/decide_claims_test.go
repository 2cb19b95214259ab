package commands_test

import (
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// claim asks for amounts of classes for some consumers of project p.
func claim(resources map[string]int64, consumers ...ledger.UUID) *commands.Claim {
	c := &commands.Claim{Requests: []demand.CandidateRequest{{Groups: []demand.RequestGroup{{Resources: resources}}}}}
	for _, id := range consumers {
		c.For = append(c.For, commands.ClaimConsumer{Consumer: id, Project: "p", User: "u"})
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
	noTrait, noClass, noWeight := claim(cores(2), fresh), claim(map[string]int64{none: 1}, fresh), claim(cores(2), fresh)
	noTrait.Requests[0].RootRequired = []string{none}
	noWeight.Prefer = &demand.ClaimPreference{Weights: map[string]demand.Weight{none: 1}}
	nowhere := rejected(demand.CodeNoCandidates, demand.Facts{AsOf: w.State().Head().Sequence})
	node := claim(cores(2), deployed)
	return []decision{
		{
			"a new consumer", nil, claim(cores(2), fresh),
			happens(claimedOf(w, allocate(fresh, host, vcpu, 2), askedTwo, 0), advanced(host, w.of(host, 1))),
		},
		{"the one with the least left", nil, packed, happens(byPack, advanced(host, w.of(host, 1)))},
		{
			"more than before, where that counts as free", nil, resized,
			happens(claimedOf(w, allocate(holder, host, vcpu, 4), `{"own_free":true,"request":{"groups":[{"resources":{"VCPU":4}}]}}`, 0),
				advanced(host, w.of(host, 1))),
		},
		{"a reservation keeps its end", nil, moved, happens(kept, advanced(host, w.of(host, 1)))},
		{
			"two at once", nil, claim(cores(2), fresh, theirs),
			happens(claimedOf(w, allocate(fresh, host, vcpu, 2), askedTwo, 0),
				claimedOf(w, allocate(theirs, host, vcpu, 2), askedTwo, 0), advanced(host, w.of(host, 1))),
		},
		{"more than is free", []commands.Command{claim(cores(4), theirs)}, claim(cores(2), fresh), rejected(
			demand.CodeNoCandidates, demand.Facts{AsOf: w.State().Head().Sequence + 1})},
		{"three at once", nil, claim(cores(2), fresh, theirs, ledger.UUID{15: 6}), nowhere},
		{"for none", nil, claim(cores(2)), invalid("for")},
		{"a consumer that holds something", nil, claim(cores(2), holder), consumerConflict(holder, ptr(w.generation(holder)), nil)},
		{"no such trait", nil, noTrait, rejected(demand.CodeTraitUnknown, demand.Facts{Names: []string{none}})},
		{"no such class", nil, noClass, rejected(demand.CodeClassUnknown, demand.Facts{Class: none})},
		{"no such class to weigh", nil, noWeight, rejected(demand.CodeClassUnknown, demand.Facts{Class: none})},
		{
			"a consumer that is a node's allocation", []commands.Command{&commands.SetNodeProviders{On: true, Limit: 10}}, func() commands.Command {
				node.For[0].AnyGeneration = true
				return node
			}(), rejected(demand.CodeNodeIsProvider, demand.Facts{
				Consumer: &deployed, Node: &busyNode, Allocation: &deployed,
			}),
		},
	}
}
