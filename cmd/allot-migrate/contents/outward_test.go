package contents_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestForPlacement: ids count from 1 in the order of creation and of the last
// change, whatever they were, and everything that refers to them goes along. Standard classes get the ids that
// Placement gives them, and custom ones follow. Times stay; a row of allocations was made when its consumer last
// changed. A generation that is too large begins again. The rows given stay as they are.
func TestForPlacement(t *testing.T) {
	t.Parallel()
	at := func(created, updated int64) contents.Times {
		return contents.Times{Created: created, Updated: updated}
	}
	some := contents.Some
	rows := &contents.Rows{
		Classes: []contents.NameRow{
			{ID: 1, Name: "VCPU", Created: 5}, {ID: 2, Name: "CUSTOM_B"}, {ID: 3, Name: "MEMORY_MB"}, {ID: 4, Name: "CUSTOM_A"},
		},
		Providers: []contents.ProviderRow{
			{ID: 1 << 40, UUID: "young", Parent: some(7), Root: some(7), Times: at(20, 30)}, {ID: 7, UUID: "old", Root: some(7), Times: at(10, 0)},
		},
		Inventories:        []contents.InventoryRow{{ID: 1 << 41, Provider: 1 << 40, Class: 4, Times: at(20, 25)}},
		ProviderTraits:     []contents.PairRow{{Provider: 1 << 40, Other: 3}},
		ProviderAggregates: []contents.PairRow{{Provider: 7, Other: 4}},
		Consumers: []contents.ConsumerRow{
			{ID: 1 << 42, UUID: "late", Generation: some(math.MaxInt32), Times: at(1, 9)},
			{ID: 1 << 43, UUID: "early", Generation: some(math.MaxInt32 + 1), Times: at(2, 3)},
		},
		Allocations: []contents.AllocationRow{
			{ID: 1 << 44, Provider: 7, Class: 3, Consumer: "late", Used: 1, Times: at(1, 9)},
			{ID: 1 << 45, Provider: 1 << 40, Class: 1, Consumer: "early", Used: 2, Times: at(2, 3)},
		},
	}
	got := ledgertest.Must(contents.ForPlacement(rows))
	ledgertest.Same(t, "testdata/for_placement.txt", placementdbtest.Dump(t, got))
	if rows.Classes[1].ID != 2 || rows.Consumers[1].Generation.Value == 1 {
		t.Errorf("the rows given have changed: %+v", rows)
	}
}

// TestCompareCandidates: the order counts for nothing, and every other difference is found.
func TestCompareCandidates(t *testing.T) {
	t.Parallel()
	both := string(ledgertest.ReadFile(t, "testdata/candidates.json"))
	read := func(text string) *contents.Candidates {
		var c contents.Candidates
		ledgertest.OK(t, json.Unmarshal([]byte(text), &c))
		return &c
	}
	ledgertest.Answers(t, "testdata/candidates.txt", func(line, _ string) string {
		old, now, _ := strings.Cut(line, " -> ")
		var lines []string
		for _, d := range contents.CompareCandidates("resources=VCPU:1", read(both), read(strings.Replace(both, old, now, 1))) {
			lines = append(lines, fmt.Sprintf("%s, %s: %s, %s", d.What, d.Field, d.Left, d.Right))
		}
		return strings.Join(lines, "\n")
	})
}
