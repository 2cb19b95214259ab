package commands_test

import (
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func topologyDecisions() []decision {
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
	return []decision{
		{"a new one", nil, set("fabric", some()), happens(ledger.TopologySet{Topology: fabric})},
		{"the same again", was, set("fabric", some()), nothing},
		{"another one", was, set("fabric", map[string]demand.TopologyMember{aggregate.String(): some()[aggregate.String()]}),
			happens(ledger.TopologySet{Topology: less})},
		{"no more", was, &commands.SetTopology{Name: "fabric"}, happens(ledger.TopologyRemoved{Name: "fabric"})},
		{"there is none", nil, &commands.SetTopology{Name: "fabric"}, nothing},
		{"no name", nil, set("", some()), invalid("name")},
		{"a circle", nil, set("fabric", circle), invalid("members")},
		{"no levels", nil, &commands.SetTopology{Name: "a", Topology: &demand.Topology{}}, invalid("levels")},
	}
}
