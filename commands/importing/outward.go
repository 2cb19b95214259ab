package importing

import (
	"math"
	"slices"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// firstCustomClass is the id of Placement's first custom class.
const firstCustomClass = int64(ledger.FirstCustomClass)

// ForPlacement returns rows with the ids that Placement's tables give: a standard
// class has its position in the list of standard classes, and custom ones follow
// from 10000 on. A consumer's generation stays, because services may have read it; if
// it does not fit into Placement's column, it begins again from 1.
func ForPlacement(rows *Rows) (*Rows, error) {
	names, err := commands.NewAddStandardNames(ledger.NilUUID)
	if err != nil {
		return nil, err
	}
	out := *rows
	next := firstCustomClass
	ids := make(map[int64]int64, len(rows.Classes))
	out.Classes = slices.Clone(rows.Classes)
	for i := range out.Classes {
		class := &out.Classes[i]
		id := int64(slices.Index(names.Classes, class.Name))
		if id < 0 {
			id, next = next, next+1
		}
		ids[class.ID], class.ID = id, id
	}
	out.Inventories, out.Allocations = slices.Clone(rows.Inventories), slices.Clone(rows.Allocations)
	for i := range out.Inventories {
		out.Inventories[i].Class = ids[out.Inventories[i].Class]
	}
	for i := range out.Allocations {
		out.Allocations[i].Class = ids[out.Allocations[i].Class]
	}
	out.Consumers = slices.Clone(rows.Consumers)
	for i := range out.Consumers {
		if g := &out.Consumers[i].Generation; g.Value > math.MaxInt32 {
			g.Value = (g.Value-1)%math.MaxInt32 + 1
		}
	}
	return &out, nil
}
