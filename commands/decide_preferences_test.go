package commands_test

import (
	"math"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func preference(name string, prefer *demand.ClaimPreference) *commands.SetPreference {
	return &commands.SetPreference{Name: name, Prefer: prefer}
}

// preferenceDecisions are about preferences with names, and claims that refer to
// them.
func preferenceDecisions(w *world) []decision {
	pack := func() *demand.ClaimPreference { return &demand.ClaimPreference{Order: demand.OrderPack} }
	set := steps{preference("gold", pack())}
	weighs := func(name string) *demand.ClaimPreference {
		return &demand.ClaimPreference{Weights: map[string]demand.Weight{name: 1}}
	}
	by := func(prefer demand.ClaimPreference) *commands.Claim {
		c := claim(map[string]int64{vcpu: 2}, fresh)
		c.Prefer = &prefer
		return c
	}
	claimed := claimedOf(w, allocate(fresh, host, vcpu, 2),
		`{"prefer":{"name":"gold","order":"pack","seed":5},"request":{"groups":[{"resources":{"VCPU":2}}]}}`, -0.5)
	claimed.Seed, claimed.AsOf = 5, claimed.AsOf+1
	apart := claim(map[string]int64{vcpu: 1}, fresh, ledger.UUID{15: 5})
	apart.Gang = []demand.GangRule{{By: "tree", Rule: "apart"}}
	nowhere := rejected(demand.CodeNoCandidates, demand.Facts{AsOf: w.State().Head().Sequence})
	near := func(rule string) *commands.Claim {
		return by(demand.ClaimPreference{Near: []demand.NearConsumers{
			{By: "tree", Rule: rule, Consumers: []ledger.UUID{holder}},
		}})
	}
	beside := claimedOf(w, allocate(fresh, host, vcpu, 2), ledger.Document(
		`{"prefer":{"near":[{"by":"tree","consumers":["`+holder.String()+
			`"],"rule":"require"}]},"request":{"groups":[{"resources":{"VCPU":2}}]}}`), 0)
	return []decision{
		{"where another one is", nil, near("require"), happens(beside, advanced(host, 7))},
		{"not where another one is", nil, near("forbid"), nowhere},
		{"two apart, and there is one host", nil, apart, nowhere},
		{"a new one", nil, preference("gold", pack()), `PreferenceSet{Name:gold Prefer:{"order":"pack"}}`},
		{"another one", set, preference("gold", weighs(vcpu)), `PreferenceSet{Name:gold Prefer:{"weights":{"VCPU":1}}}`},
		{"the same", set, preference("gold", pack()), nothing},
		{"none any more", set, preference("gold", nil), "PreferenceRemoved{Name:gold}"},
		{"none, and there was none", nil, preference("gold", nil), nothing},
		{"without a name", nil, preference("", pack()), invalid("name")},
		{"a name that cannot be", nil, preference("a b", pack()), invalid("name")},
		{"of another name", nil, preference("a", &demand.ClaimPreference{Name: "b"}), invalid("prefer")},
		{"with a seed", nil, preference("a", &demand.ClaimPreference{Seed: ptr[uint64](1)}), invalid("prefer")},
		{"beyond all bounds", nil, preference("a", &demand.ClaimPreference{
			Weights: map[string]demand.Weight{vcpu: demand.Weight(math.Inf(-1))}}), invalid("prefer")},
		{"of no such class", nil, preference("a", weighs(none)), "class_unknown{Class:CUSTOM_NONE}"},
		{"of no such trait", nil, preference("a", &demand.ClaimPreference{Traits: map[string]demand.Weight{none: 1}}),
			"trait_unknown{Names:[CUSTOM_NONE]}"},

		{"by a name", set, by(demand.ClaimPreference{Name: "gold", Seed: ptr[uint64](5)}),
			happens(claimed, advanced(host, 7))},
		{"by no such name", nil, by(demand.ClaimPreference{Name: "gold"}), "preference_unknown{Name:gold}"},
		{"by a name that is gone", append(set[:1:1], preference("gold", nil)), by(demand.ClaimPreference{Name: "gold"}),
			"preference_unknown{Name:gold}"},
		{"by a name and an order", set, by(demand.ClaimPreference{Name: "gold", Order: "pack"}), invalid("prefer")},
		{"by a name that cannot be", nil, by(demand.ClaimPreference{Name: "a b"}), invalid("name")},
	}
}

func topologyDecisions(w *world) []decision {
	set := func(name string, members map[string]demand.TopologyMember) *commands.SetTopology {
		return &commands.SetTopology{
			Name: name, Topology: &demand.Topology{Levels: []string{"block", "rack"}, Members: members},
		}
	}
	rack := ledger.UUID{15: 1} // before its block, by its id
	some := func() map[string]demand.TopologyMember {
		return map[string]demand.TopologyMember{
			aggregate.String(): {Level: "block", Name: "b"}, rack.String(): {Level: "rack", Name: "r", Parent: &aggregate},
		}
	}
	fabric := ledger.Topology{Name: "fabric", Levels: []string{"block", "rack"}, Members: []ledger.TopologyMember{
		{Aggregate: aggregate, Name: "b"}, {Aggregate: rack, Level: 1, Name: "r", Parent: aggregate},
	}}
	less := fabric
	less.Members = fabric.Members[:1]
	circle := some()
	circle[aggregate.String()] = demand.TopologyMember{Level: "block", Name: "b", Parent: &rack}
	was := steps{set("fabric", some())}
	gang := func(topology string, changes ...func(*demand.GangRule)) *commands.Claim {
		c := claim(map[string]int64{vcpu: 1}, fresh, ledger.UUID{15: 5}, ledger.UUID{15: 6})
		c.Gang = []demand.GangRule{{Topology: topology, Within: "block"}}
		for _, change := range changes {
			change(&c.Gang[0])
		}
		return c
	}
	twice, two, drawing := gang("fabric"), gang("fabric"), gang("fabric")
	twice.Gang = append(twice.Gang, demand.GangRule{Topology: "other", Within: "block"})
	two.Requests, two.For[1].Request = append(two.Requests, two.Requests[0]), 1
	drawing.For[1].FromReservation = &holder
	asOf := w.State().Head().Sequence
	return []decision{
		{"a new one", nil, set("fabric", some()), happens(ledger.TopologySet{Topology: fabric})},
		{"the same again", was, set("fabric", some()), nothing},
		{"another one", was, set("fabric", map[string]demand.TopologyMember{aggregate.String(): some()[aggregate.String()]}),
			happens(ledger.TopologySet{Topology: less})},
		{"no more", was, &commands.SetTopology{Name: "fabric"}, "TopologyRemoved{Name:fabric}"},
		{"there is none", nil, &commands.SetTopology{Name: "fabric"}, nothing},
		{"two racks for a gang", was, gang("fabric"), rejected(demand.CodeNoCandidates, demand.Facts{AsOf: asOf + 1})},
		{"no such topology for a gang", nil, gang("fabric"), "topology_unknown{Name:fabric}"},
		{"no such level", was, gang("fabric", func(g *demand.GangRule) { g.Within = "row" }), invalid("within")},
		{"no whole slices", was, gang("fabric", func(g *demand.GangRule) { g.Slices = 2 }), invalid("slices")},
		{"a rule beside a topology", was, gang("fabric", func(g *demand.GangRule) { g.By = "tree" }), invalid("gang")},
		{"within nothing", was, gang("fabric", func(g *demand.GangRule) { g.Within = "" }), invalid("gang")},
		{"slices without a topology", was, gang("", func(g *demand.GangRule) { g.Slices = 2 }), invalid("gang")},
		{"in two topologies", was, twice, invalid("gang")},
		{"two requests", was, two, invalid("gang")},
		{"a draw, in a topology", was, drawing, invalid("gang")},
		{"no name", nil, set("", some()), invalid("name")},
		{"a circle", nil, set("fabric", circle), invalid("members")},
		{"no levels", nil, &commands.SetTopology{Name: "a", Topology: &demand.Topology{}}, invalid("levels")},
	}
}
