package commands_test

import (
	"math"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

func preference(name string, prefer *commands.ClaimPreference) *commands.SetPreference {
	return &commands.SetPreference{Name: name, Prefer: prefer}
}

// preferenceDecisions are about preferences with names, and claims that refer to
// them.
func preferenceDecisions(w *world) []decision {
	pack := func() *commands.ClaimPreference { return &commands.ClaimPreference{Order: commands.OrderPack} }
	set := []commands.Command{preference("gold", pack())}
	weighs := func(name string) *commands.ClaimPreference {
		return &commands.ClaimPreference{Weights: map[string]commands.Weight{name: 1}}
	}
	by := func(prefer commands.ClaimPreference) *commands.Claim {
		c := claim(map[string]int64{vcpu: 2}, fresh)
		c.Prefer = &prefer
		return c
	}
	claimed := claimedOf(w, allocate(fresh, host, vcpu, 2),
		`{"prefer":{"name":"gold","order":"pack","seed":5},"request":{"groups":[{"resources":{"VCPU":2}}]}}`, -0.5)
	claimed.Seed, claimed.AsOf = 5, claimed.AsOf+1
	apart := claim(map[string]int64{vcpu: 1}, fresh, ledger.UUID{15: 5})
	apart.Gang = []commands.GangRule{{By: "tree", Rule: "apart"}}
	nowhere := rejected(commands.CodeNoCandidates, commands.Facts{AsOf: w.State().Head().Sequence})
	near := func(rule string) *commands.Claim {
		return by(commands.ClaimPreference{Near: []commands.NearConsumers{
			{By: "tree", Rule: rule, Consumers: []ledger.UUID{holder}},
		}})
	}
	beside := claimedOf(w, allocate(fresh, host, vcpu, 2), ledger.Document(
		`{"prefer":{"near":[{"by":"tree","consumers":["`+holder.String()+
			`"],"rule":"require"}]},"request":{"groups":[{"resources":{"VCPU":2}}]}}`), 0)
	return []decision{
		{"where another one is", nil, near("require"), happens(beside, advanced(host, w.of(host, 1)))},
		{"not where another one is", nil, near("forbid"), nowhere},
		{"two apart, and there is one host", nil, apart, nowhere},
		{"a new one", nil, preference("gold", pack()), happens(ledger.PreferenceSet{Name: "gold", Prefer: `{"order":"pack"}`})},
		{"another one", set, preference("gold", weighs(vcpu)),
			happens(ledger.PreferenceSet{Name: "gold", Prefer: `{"weights":{"VCPU":1}}`})},
		{"the same", set, preference("gold", pack()), nothing},
		{"none any more", set, preference("gold", nil), happens(ledger.PreferenceRemoved{Name: "gold"})},
		{"none, and there was none", nil, preference("gold", nil), nothing},
		{"without a name", nil, preference("", pack()), invalid("name")},
		{"a name that cannot be", nil, preference("a b", pack()), invalid("name")},
		{"of another name", nil, preference("a", &commands.ClaimPreference{Name: "b"}), invalid("prefer")},
		{"with a seed", nil, preference("a", &commands.ClaimPreference{Seed: ptr[uint64](1)}), invalid("prefer")},
		{"beyond all bounds", nil, preference("a", &commands.ClaimPreference{
			Weights: map[string]commands.Weight{vcpu: commands.Weight(math.Inf(-1))}}), invalid("prefer")},
		{"of no such class", nil, preference("a", weighs(none)), rejected(commands.CodeClassUnknown, commands.Facts{Class: none})},
		{"of no such trait", nil, preference("a", &commands.ClaimPreference{Traits: map[string]commands.Weight{none: 1}}),
			rejected(commands.CodeTraitUnknown, commands.Facts{Names: []string{none}})},

		{"by a name", set, by(commands.ClaimPreference{Name: "gold", Seed: ptr[uint64](5)}),
			happens(claimed, advanced(host, w.of(host, 1)))},
		{"by no such name", nil, by(commands.ClaimPreference{Name: "gold"}),
			rejected(commands.CodePreferenceUnknown, commands.Facts{Name: "gold"})},
		{"by a name that is gone", append(set[:1:1], preference("gold", nil)), by(commands.ClaimPreference{Name: "gold"}),
			rejected(commands.CodePreferenceUnknown, commands.Facts{Name: "gold"})},
		{"by a name and an order", set, by(commands.ClaimPreference{Name: "gold", Order: "pack"}), invalid("prefer")},
		{"by a name that cannot be", nil, by(commands.ClaimPreference{Name: "a b"}), invalid("name")},
	}
}
