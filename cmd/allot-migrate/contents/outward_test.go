package contents_test

import (
	"encoding/json"
	"fmt"
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
	rows := new(contents.Rows)
	ledgertest.OK(t, json.Unmarshal(ledgertest.ReadFile(t, "testdata/rows.json"), rows))
	given := placementdbtest.Dump(t, rows)
	got := ledgertest.Must(contents.ForPlacement(rows))
	ledgertest.Same(t, "testdata/rows_for_placement.txt", placementdbtest.Dump(t, got))
	if after := placementdbtest.Dump(t, rows); after != given {
		t.Errorf("the rows given have become\n%s\nand were\n%s", after, given)
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
