package commands_test

import (
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
	was := []commands.Command{set("fabric", some())}
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
		{"no more", was, &commands.SetTopology{Name: "fabric"}, happens(ledger.TopologyRemoved{Name: "fabric"})},
		{"there is none", nil, &commands.SetTopology{Name: "fabric"}, nothing},
		{"two racks for a gang", was, gang("fabric"), rejected(demand.CodeNoCandidates, demand.Facts{AsOf: asOf + 1})},
		{"no such topology for a gang", nil, gang("fabric"),
			rejected(demand.CodeTopologyUnknown, demand.Facts{Name: "fabric"})},
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
