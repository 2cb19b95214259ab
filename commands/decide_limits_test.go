package commands_test

import (
	"fmt"
	"slices"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func limitOf(project, class string, most int64) *commands.SetLimit {
	return &commands.SetLimit{Project: project, Class: class, Most: &most}
}

// chain places so many projects one below the other, the first below a top.
func chain(top string, length int) (list steps) {
	above := top
	for i := range length {
		below := fmt.Sprint(top, " ", i)
		list = append(list, &commands.PlaceProject{Project: below, Parent: above})
		above = below
	}
	return list
}

// limitDecisions are about limits. Project p holds 4 VCPU in two consumers, which have no type.
func limitDecisions(w *world) []decision {
	over := func(most, used, asked int64) string {
		return rejected(demand.CodeOverLimit, demand.Facts{
			Project: "p", Class: vcpu, Limit: &most, Used: used, Asked: asked,
		})
	}
	four := steps{limitOf("p", vcpu, 4)}
	unknown := &commands.SetLimit{Project: "p", Type: ledger.UnknownType, Most: ptr[int64](2)}
	more := allocations(allocate(fresh, host, vcpu, 2))
	smaller := allocations(w.known(allocate(holder, host, vcpu, 2)))
	place := func(project, parent string) *commands.PlaceProject {
		return &commands.PlaceProject{Project: project, Parent: parent}
	}
	ofRack := func(most int64) *commands.SetLimit {
		return &commands.SetLimit{Aggregate: aggregate, Class: vcpu, Most: &most}
	}
	const used4 = 4 // all that is held on host
	in := steps{&commands.ReplaceProviderAggregates{Provider: host, Aggregates: []ledger.UUID{aggregate}}}
	full := append(slices.Clone(in), ofRack(used4))
	inRack := "over_limit{Class:VCPU Used:4 Asked:2 Aggregate:aggregate Limit:4}"
	above := "over_limit{Class:VCPU Used:4 Asked:2 Project:root Limit:4}"
	reshape := &commands.Reshape{
		Inventories: []commands.ProviderInventories{{
			Provider: host, Generation: ptr[int64](6), Inventories: []commands.Inventory{
				{Class: vcpu, Total: 8}, {Class: used, Total: 4},
			},
		}}, Allocations: more.Allocations,
	}
	return []decision{
		{"a limit", nil, limitOf("p", vcpu, 9), "LimitSet{Project:p Class:VCPU Most:9}"},
		{"of consumers", nil, unknown, happens(ledger.LimitSet{Project: "p", Type: ledger.UnknownType, Most: 2})},
		{"below what is used", nil, limitOf("", vcpu, 1), "LimitSet{Class:VCPU Most:1}"},
		{"as it is", four, limitOf("p", vcpu, 4), nothing},
		{"none any more", four, &commands.SetLimit{Project: "p", Class: vcpu}, "LimitRemoved{Project:p Class:VCPU}"},
		{
			"gone with their class", steps{
				limitOf("", free, 9), limitOf("p", free, 4), limitOf("p", vcpu, 4),
				&commands.SetLimit{Aggregate: aggregate, Class: free, Most: ptr[int64](1)},
				&commands.SetLimit{Aggregate: aggregate, Class: vcpu, Most: ptr[int64](9)},
			},
			&commands.DeleteResourceClass{Name: free},
			happens(
				ledger.LimitRemoved{Class: free}, ledger.LimitRemoved{Project: "p", Class: free},
				ledger.AggregateLimitRemoved{Aggregate: aggregate, Class: free},
				ledger.ClassDeleted{ID: ledger.FirstCustomClass + 1, Name: free},
			),
		},
		{"none, and there was none", nil, &commands.SetLimit{Project: "p", Class: vcpu}, nothing},
		{"of no such class", nil, limitOf("p", none, 1), "class_unknown{Class:CUSTOM_NONE}"},
		{"of nothing", nil, &commands.SetLimit{Most: ptr[int64](1)}, invalid("class")},
		{"of a class and a type", nil, &commands.SetLimit{Class: vcpu, Type: "A", Most: ptr[int64](1)}, invalid("class")},
		{"of an aggregate", nil, ofRack(9), "AggregateLimitSet{Aggregate:aggregate Class:VCPU Most:9}"},
		{"of an aggregate, below what is used", in, ofRack(1), "AggregateLimitSet{Aggregate:aggregate Class:VCPU Most:1}"},
		{"of an aggregate, as it is", full, ofRack(used4), nothing},
		{"of an aggregate, none any more", full, &commands.SetLimit{Aggregate: aggregate, Class: vcpu},
			"AggregateLimitRemoved{Aggregate:aggregate Class:VCPU}"},
		{"of an aggregate, none, and there was none", nil, &commands.SetLimit{Aggregate: aggregate, Class: vcpu}, nothing},
		{"of an aggregate and a project", nil,
			&commands.SetLimit{Aggregate: aggregate, Project: "p", Class: vcpu, Most: ptr[int64](1)}, invalid("aggregate")},
		{"of an aggregate and a type", nil, &commands.SetLimit{Aggregate: aggregate, Type: "A", Most: ptr[int64](1)},
			invalid("aggregate")},
		{"of an aggregate and no such class", nil, &commands.SetLimit{Aggregate: aggregate, Class: none, Most: ptr[int64](1)},
			"class_unknown{Class:CUSTOM_NONE}"},
		{"more than the aggregate may have", full, more, inRack},
		{"more than the aggregate may have", full, reserve(9, more.Allocations...), inRack},
		{"more than the aggregate may have", full, claim(map[string]int64{vcpu: 2}, fresh), inRack},
		{"over the aggregate's limit already, and no more", append(slices.Clone(in), ofRack(1)), smaller,
			happens(replaced(smaller.Allocations[0]), advanced(host, 8))},
		{"of a type that cannot be", nil, &commands.SetLimit{Type: "a b", Most: ptr[int64](1)}, invalid("type")},
		{"below 0", nil, limitOf("p", vcpu, -1), invalid("most")},

		{"below another one", nil, place("p", "root"), "ProjectPlaced{Project:p Parent:root}"},
		{"below none any more", steps{place("p", "root")}, place("p", ""), "ProjectPlaced{Project:p}"},
		{"where it is", nil, place("p", ""), nothing},
		{"nothing", nil, place("", "root"), invalid("project")},
		{"below itself", steps{place("root", "p")}, place("p", "root"), "project_loop{Project:p}"},
		{"as deep as may be", append(chain("above", 7), chain("p", 8)...), place("p", "above 6"),
			"ProjectPlaced{Project:p Parent:above 6}"},
		{"with more below it than may be", append(chain("above", 7), chain("p", 9)...), place("p", "above 6"),
			"project_loop{Project:p}"},
		{"with one more above it than may be", chain("above", 16), place("p", "above 15"), "project_loop{Project:p}"},

		{"more than the limit", four, more, over(4, 4, 2)},
		{"more than the default", steps{limitOf("", vcpu, 4)}, more, over(4, 4, 2)},
		{"the project's own limit wins over the default", steps{limitOf("", vcpu, 4), limitOf("p", vcpu, 6)}, more,
			happens(replaced(more.Allocations[0]), advanced(host, 7))},
		{"over the limit already, and no more", steps{limitOf("p", vcpu, 1)}, smaller,
			happens(replaced(smaller.Allocations[0]), advanced(host, 7))},
		{"more than a project above may have", steps{place("p", "mid"), place("mid", "root"), limitOf("root", vcpu, 4)}, more,
			above},
		{"more consumers than there may be", steps{unknown}, more, rejected(demand.CodeOverLimit, demand.Facts{
			Project: "p", ConsumerType: ledger.UnknownType, Limit: ptr[int64](2), Used: 2, Asked: 1,
		})},
		{"more than the limit", four, reserve(9, more.Allocations...), over(4, 4, 2)},
		{"more than the limit", four, claim(map[string]int64{vcpu: 2}, fresh), over(4, 4, 2)},
		{"more than the limit", four, reshape, over(4, 4, 2)},
	}
}
