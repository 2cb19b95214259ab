package contents_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestForPlacement: standard classes get the ids that Placement gives them, custom
// ones follow, and all rows about them go along. The rows given stay as they are.
func TestForPlacement(t *testing.T) {
	t.Parallel()
	rows := &contents.Rows{
		Classes:     []contents.NameRow{{ID: 1, Name: "CUSTOM_B"}, {ID: 2, Name: "MEMORY_MB"}, {ID: 3, Name: "CUSTOM_A"}, {ID: 4, Name: "VCPU"}},
		Inventories: []contents.InventoryRow{{ID: 1, Class: 4}, {ID: 2, Class: 1}},
		Allocations: []contents.AllocationRow{{ID: 1, Class: 2}, {ID: 2, Class: 3}},
		Consumers: []contents.ConsumerRow{
			{ID: 1, Generation: contents.Some(math.MaxInt32)}, {ID: 2, Generation: contents.Some(math.MaxInt32 + 1)},
		},
	}
	got, err := contents.ForPlacement(rows)
	ledgertest.OK(t, err)
	want := []contents.NameRow{{ID: 10000, Name: "CUSTOM_B"}, {ID: 1, Name: "MEMORY_MB"}, {ID: 10001, Name: "CUSTOM_A"}, {ID: 0, Name: "VCPU"}}
	if diff := cmp.Diff(want, got.Classes); diff != "" {
		t.Error(diff)
	}
	if got.Inventories[0].Class != 0 || got.Inventories[1].Class != 10000 || got.Allocations[0].Class != 1 ||
		got.Allocations[1].Class != 10001 {
		t.Errorf("%+v %+v", got.Inventories, got.Allocations)
	}
	if got.Consumers[0].Generation.Value != math.MaxInt32 || got.Consumers[1].Generation.Value != 1 {
		t.Errorf("%+v", got.Consumers)
	}
	if rows.Classes[0].ID != 1 || rows.Inventories[0].Class != 4 || rows.Consumers[1].Generation.Value != math.MaxInt32+1 {
		t.Errorf("the rows given have changed: %+v", rows)
	}
}

// TestForPlacementNumbers: ids count from 1 in the order of creation and of the last
// change, whatever they were, and everything that refers to them goes along. Times
// stay; a row of allocations was made when its consumer last changed.
func TestForPlacementNumbers(t *testing.T) {
	t.Parallel()
	at := func(created, updated int64) contents.Times {
		return contents.Times{Created: created, Updated: updated}
	}
	some := contents.Some
	got, err := contents.ForPlacement(&contents.Rows{
		Classes: []contents.NameRow{{ID: 1, Name: "VCPU", Created: 5}},
		Providers: []contents.ProviderRow{
			{ID: 1 << 40, UUID: "young", Parent: some(7), Root: some(7), Times: at(20, 30)}, {ID: 7, UUID: "old", Root: some(7), Times: at(10, 0)},
		},
		Inventories:        []contents.InventoryRow{{ID: 1 << 41, Provider: 1 << 40, Class: 1, Times: at(20, 25)}},
		ProviderTraits:     []contents.PairRow{{Provider: 1 << 40, Other: 3}},
		ProviderAggregates: []contents.PairRow{{Provider: 7, Other: 4}},
		Consumers:          []contents.ConsumerRow{{ID: 1 << 42, UUID: "late", Times: at(1, 9)}, {ID: 1 << 43, UUID: "early", Times: at(2, 3)}},
		Allocations: []contents.AllocationRow{
			{ID: 1 << 44, Provider: 7, Class: 1, Consumer: "late", Used: 1, Times: at(1, 9)},
			{ID: 1 << 45, Provider: 1 << 40, Class: 1, Consumer: "early", Used: 2, Times: at(2, 3)},
		},
	})
	ledgertest.OK(t, err)
	want := &contents.Rows{
		Classes: []contents.NameRow{{ID: 0, Name: "VCPU", Created: 5}},
		Providers: []contents.ProviderRow{
			{ID: 1, UUID: "old", Root: some(1), Times: at(10, 0)}, {ID: 2, UUID: "young", Parent: some(1), Root: some(1), Times: at(20, 30)},
		},
		Inventories:        []contents.InventoryRow{{ID: 1, Provider: 2, Times: at(20, 25)}},
		ProviderTraits:     []contents.PairRow{{Provider: 2, Other: 3}},
		ProviderAggregates: []contents.PairRow{{Provider: 1, Other: 4}},
		Consumers:          []contents.ConsumerRow{{ID: 1, UUID: "early", Times: at(2, 3)}, {ID: 2, UUID: "late", Times: at(1, 9)}},
		Allocations: []contents.AllocationRow{
			{ID: 1, Provider: 2, Consumer: "early", Used: 2, Times: at(3, 0)}, {ID: 2, Provider: 1, Consumer: "late", Used: 1, Times: at(9, 0)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompareCandidates: the order counts for nothing, and every other difference is
// found.
func TestCompareCandidates(t *testing.T) {
	t.Parallel()
	const both = `{"Requests": [
		{"allocations": {"a": {"resources": {"VCPU": 1}}, "b": {"resources": {"DISK_GB": 2}}}, "mappings": {"": ["a", "b"]}},
		{"allocations": {"c": {"resources": {"VCPU": 1}}}, "mappings": {"": ["c"]}}],
		"Summaries": {"a": {"resources": {"VCPU": {"capacity": 8, "used": 1}}, "traits": ["T", "U"], "root_provider_uuid": "r"}}}`
	read := func(text string) *contents.Candidates {
		var c contents.Candidates
		ledgertest.OK(t, json.Unmarshal([]byte(text), &c))
		return &c
	}
	for name, row := range map[string]struct {
		old, now string
		fields   int // that differ
	}{
		"nothing":     {"", "", 0},
		"mappings":    {`["a", "b"]`, `["b", "a"]`, 0},
		"traits":      {`["T", "U"]`, `["U", "T"]`, 0},
		"a trait":     {`["T", "U"]`, `["U"]`, 1},
		"an amount":   {`"DISK_GB": 2`, `"DISK_GB": 3`, 2},
		"a provider":  {`{"c": {"res`, `{"d": {"res`, 2},
		"a mapping":   {`["c"]`, `["d"]`, 2},
		"usage":       {`"used": 1`, `"used": 2`, 1},
		"capacity":    {`"capacity": 8`, `"capacity": 7`, 1},
		"the root":    {`"r"`, `"s"`, 1},
		"no summary":  {`"Summaries"`, `"Others"`, 1},
		"a refusal":   {`{"Requests"`, `{"Failure": "Bad Request", "Requests"`, 1},
		"a candidate": {`"Requests"`, `"Others"`, 2},
	} {
		found := contents.CompareCandidates("resources=VCPU:1", read(both), read(strings.Replace(both, row.old, row.now, 1)))
		if len(found) != row.fields {
			t.Errorf("%s: %d differences, want %d: %v", name, len(found), row.fields, found)
		}
	}
}

// TestFlavours: what consumers hold in all is asked for, each kind once.
func TestFlavours(t *testing.T) {
	t.Parallel()
	w := world()
	plan, _, err := contents.Make(w)
	if err != nil || plan == nil {
		t.Fatal(err)
	}
	all := plan.Flavours(1000)
	if len(all) == 0 || !strings.HasPrefix(all[0], "resources=") {
		t.Fatalf("%q", all)
	}
	if few := plan.Flavours(len(all) - 1); len(few) != len(all)-1 {
		t.Errorf("%q of %q", few, all)
	}
	plan.Consumers = append(plan.Consumers, plan.Consumers...)
	if again := plan.Flavours(1000); len(again) != len(all) {
		t.Errorf("%q", again)
	}
}
