package commands_test

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
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
		{"names that are new", nil, more, happens(ledger.StandardNamesAdded{
			Classes: []ledger.StandardClass{{ID: next, Name: "NEW_CLASS"}}, Traits: []string{"NEW_TRAIT"}})},
		{"no ledger", nil, &commands.AddStandardNames{}, invalid("ledger")},

		{"the first", nil, &commands.BeginTerm{Leader: "a", Instance: fresh, Level: 1},
			"TermBegan{Term:{Number:1 Leader:a Instance:fresh Level:1}}"},
		{
			"of another leader", steps{&commands.BeginTerm{Leader: "a", Instance: fresh, Level: ledger.Level}},
			&commands.BeginTerm{Leader: "b", Instance: instance, Level: ledger.Level},
			happens(ledger.TermBegan{Term: ledger.Term{Number: 2, Leader: "b", Instance: instance, Level: ledger.Level}}),
		},
		{"at a lower level", steps{&commands.BeginTerm{Leader: "a", Instance: fresh, Level: ledger.Level}},
			&commands.BeginTerm{Leader: "b", Instance: instance, Level: ledger.Level - 1}, invalid("level")},
		{"of the first hour", nil, rootSet(0, 1), happens(rootOf(1))},
		{"of an hour with no commit after it", nil, rootSet(w.State().Head().Sequence, 1), happens(rootOf(1))},
		{"made from what is outdated", nil, rootSet(w.State().Head().Sequence+1, 1), nothing},
		{"of the same hour", steps{rootSet(0, 1)}, rootSet(0, 1), nothing},
		{"of no whole hour", nil, &commands.SetConsumptionRoot{ConsumptionRoot: ledger.ConsumptionRoot{At: 1}},
			invalid("at")},

		{"of no leader", nil, &commands.BeginTerm{Instance: fresh, Level: 1}, invalid("leader")},
		{"of no process", nil, &commands.BeginTerm{Leader: "a", Level: 1}, invalid("instance")},

		{"new", nil, &commands.CreateTrait{Name: "CUSTOM_A_1"}, "TraitCreated{Name:CUSTOM_A_1}"},
		{"taken", nil, &commands.CreateTrait{Name: used}, "trait_exists{Name:CUSTOM_USED}"},
		{"free", nil, &commands.DeleteTrait{Name: free}, "TraitDeleted{Name:CUSTOM_FREE}"},
		{"in use", nil, &commands.DeleteTrait{Name: used}, "trait_in_use{Name:CUSTOM_USED}"},
		{"a standard one", nil, &commands.DeleteTrait{Name: "HW_CPU_X86_AVX"}, "trait_standard{Name:HW_CPU_X86_AVX}"},
		{"not there", nil, &commands.DeleteTrait{Name: none}, "trait_unknown{Names:[CUSTOM_NONE]}"},
		{"no name", nil, &commands.DeleteTrait{}, invalid("name")},

		{"the next number", nil, &commands.CreateResourceClass{Name: none}, "ClassCreated{ID:10002 Name:CUSTOM_NONE}"},
		{"a number is not given again", steps{&commands.DeleteResourceClass{Name: free}},
			&commands.CreateResourceClass{Name: free}, "ClassCreated{ID:10002 Name:CUSTOM_FREE}"},
		{"taken", nil, &commands.CreateResourceClass{Name: used}, "class_exists{Class:CUSTOM_USED}"},
		{"in use", nil, &commands.RenameResourceClass{Name: used, NewName: none}, "ClassRenamed{ID:10000 Name:CUSTOM_NONE}"},
		{"to its own name", nil, &commands.RenameResourceClass{Name: used, NewName: used}, nothing},
		{"to a name that is taken", nil, &commands.RenameResourceClass{Name: used, NewName: free},
			"class_exists{Class:CUSTOM_FREE}"},
		{"a standard one", nil, &commands.RenameResourceClass{Name: vcpu, NewName: none}, "class_standard{Class:VCPU}"},
		{"not there", nil, &commands.RenameResourceClass{Name: none, NewName: free}, "class_unknown{Class:CUSTOM_NONE}"},
		{"free", nil, &commands.DeleteResourceClass{Name: free}, "ClassDeleted{ID:10001 Name:CUSTOM_FREE}"},
		{"in use", nil, &commands.DeleteResourceClass{Name: used}, "class_in_use{Class:CUSTOM_USED}"},
		{"a standard one", nil, &commands.DeleteResourceClass{Name: vcpu}, "class_standard{Class:VCPU}"},
		{"not there", nil, &commands.DeleteResourceClass{Name: none}, "class_unknown{Class:CUSTOM_NONE}"},
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
