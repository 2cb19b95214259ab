package commands_test

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// nameDecisions are about the ledger as a whole, traits and resource classes.
func nameDecisions(t testing.TB, w *world) []decision {
	more := standardNames(t)
	next := ledger.ClassID(len(more.Classes))
	more.Classes, more.Traits = append(more.Classes, "NEW_CLASS"), append(more.Traits, "NEW_TRAIT")
	long := "CUSTOM_" + strings.Repeat("X", ledger.MaxSymbolBytes)
	rows := []decision{
		{"nothing new", nil, &commands.AddStandardNames{Ledger: fresh, Classes: []string{vcpu}}, nothing},
		{
			"names that are new", nil, more, happens(ledger.StandardNamesAdded{
				Classes: []ledger.StandardClass{{ID: next, Name: "NEW_CLASS"}}, Traits: []string{"NEW_TRAIT"},
			}),
		},
		{"no ledger", nil, &commands.AddStandardNames{}, invalid("ledger")},

		{
			"the first", nil, &commands.BeginTerm{Leader: "a", Instance: fresh, Level: 1},
			happens(ledger.TermBegan{Term: ledger.Term{Number: 1, Leader: "a", Instance: fresh, Level: 1}}),
		},
		{
			"of another leader", []commands.Command{&commands.BeginTerm{Leader: "a", Instance: fresh, Level: ledger.Level}},
			&commands.BeginTerm{Leader: "b", Instance: instance, Level: ledger.Level},
			happens(ledger.TermBegan{Term: ledger.Term{Number: 2, Leader: "b", Instance: instance, Level: ledger.Level}}),
		},
		{
			"at a lower level", []commands.Command{&commands.BeginTerm{Leader: "a", Instance: fresh, Level: ledger.Level}},
			&commands.BeginTerm{Leader: "b", Instance: instance, Level: ledger.Level - 1}, invalid("level"),
		},
		{"of the first hour", nil, rootSet(0, 1), happens(rootOf(1))},
		{
			"of an hour with no commit after it", nil, rootSet(w.State().Head().Sequence, 1), happens(rootOf(1)),
		},
		{"made from what is outdated", nil, rootSet(w.State().Head().Sequence+1, 1), nothing},
		{"of the same hour", []commands.Command{rootSet(0, 1)}, rootSet(0, 1), nothing},
		{"of no whole hour", nil, &commands.SetConsumptionRoot{ConsumptionRoot: ledger.ConsumptionRoot{At: 1}}, invalid("at")},

		{"of no leader", nil, &commands.BeginTerm{Instance: fresh, Level: 1}, invalid("leader")},
		{"of no process", nil, &commands.BeginTerm{Leader: "a", Level: 1}, invalid("instance")},

		{"new", nil, &commands.CreateTrait{Name: "CUSTOM_A_1"}, happens(ledger.TraitCreated{Name: "CUSTOM_A_1"})},
		{
			"taken", nil, &commands.CreateTrait{Name: used},
			rejected(demand.CodeTraitExists, demand.Facts{Name: used}),
		},
		{"free", nil, &commands.DeleteTrait{Name: free}, happens(ledger.TraitDeleted{Name: free})},
		{
			"in use", nil, &commands.DeleteTrait{Name: used},
			rejected(demand.CodeTraitInUse, demand.Facts{Name: used}),
		},
		{
			"a standard one", nil, &commands.DeleteTrait{Name: "HW_CPU_X86_AVX"},
			rejected(demand.CodeTraitStandard, demand.Facts{Name: "HW_CPU_X86_AVX"}),
		},
		{
			"not there", nil, &commands.DeleteTrait{Name: none},
			rejected(demand.CodeTraitUnknown, demand.Facts{Names: []string{none}}),
		},
		{"no name", nil, &commands.DeleteTrait{}, invalid("name")},

		{
			"the next number", nil, &commands.CreateResourceClass{Name: none},
			happens(ledger.ClassCreated{ID: ledger.FirstCustomClass + 2, Name: none}),
		},
		{
			"a number is not given again", []commands.Command{&commands.DeleteResourceClass{Name: free}},
			&commands.CreateResourceClass{Name: free},
			happens(ledger.ClassCreated{ID: ledger.FirstCustomClass + 2, Name: free}),
		},
		{
			"taken", nil, &commands.CreateResourceClass{Name: used},
			rejected(demand.CodeClassExists, demand.Facts{Class: used}),
		},
		{
			"in use", nil, &commands.RenameResourceClass{Name: used, NewName: none},
			happens(ledger.ClassRenamed{ID: ledger.FirstCustomClass, Name: none}),
		},
		{"to its own name", nil, &commands.RenameResourceClass{Name: used, NewName: used}, nothing},
		{
			"to a name that is taken", nil, &commands.RenameResourceClass{Name: used, NewName: free},
			rejected(demand.CodeClassExists, demand.Facts{Class: free}),
		},
		{
			"a standard one", nil, &commands.RenameResourceClass{Name: vcpu, NewName: none},
			rejected(demand.CodeClassStandard, demand.Facts{Class: vcpu}),
		},
		{
			"not there", nil, &commands.RenameResourceClass{Name: none, NewName: free},
			rejected(demand.CodeClassUnknown, demand.Facts{Class: none}),
		},
		{
			"free", nil, &commands.DeleteResourceClass{Name: free},
			happens(ledger.ClassDeleted{ID: ledger.FirstCustomClass + 1, Name: free}),
		},
		{
			"in use", nil, &commands.DeleteResourceClass{Name: used},
			rejected(demand.CodeClassInUse, demand.Facts{Class: used}),
		},
		{
			"a standard one", nil, &commands.DeleteResourceClass{Name: vcpu},
			rejected(demand.CodeClassStandard, demand.Facts{Class: vcpu}),
		},
		{
			"not there", nil, &commands.DeleteResourceClass{Name: none},
			rejected(demand.CodeClassUnknown, demand.Facts{Class: none}),
		},
		{"no name", nil, &commands.DeleteResourceClass{}, invalid("name")},
	}
	for about, name := range map[string]string{
		"no name": "", "a prefix alone": "CUSTOM_", "no prefix": "GOLD", "small letters": "CUSTOM_gold",
		"a blank": "CUSTOM_A B", "too long": long, "another alphabet": "CUSTOM_É",
	} {
		rows = append(rows,
			decision{about, nil, &commands.CreateTrait{Name: name}, invalid("name")},
			decision{about, nil, &commands.CreateResourceClass{Name: name}, invalid("name")},
			decision{"to " + about, nil, &commands.RenameResourceClass{Name: used, NewName: name}, invalid("name")},
		)
	}
	return rows
}

func rootOf(hours int64) ledger.ConsumptionRootSet {
	return ledger.ConsumptionRootSet{ConsumptionRoot: ledger.ConsumptionRoot{
		At: hours * ledger.ConsumptionPeriod, Projects: 1, Root: ledger.DigestOf([]byte("root")),
	}}
}

func rootSet(last uint64, hours int64) *commands.SetConsumptionRoot {
	return &commands.SetConsumptionRoot{ConsumptionRoot: rootOf(hours).ConsumptionRoot, Last: last}
}
