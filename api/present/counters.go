package present

import (
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// Trees finds the tree of a root; nil: what is left of counters is not asked for.
type Trees func(root ledger.UUID) (ledger.Forest, error)

// CountersOf returns the counters of a provider, and what is left of each: below 0 where more is drawn.
func CountersOf(trees Trees, p *ledger.Provider) ([]wire.Counter, error) {
	var list []wire.Counter
	for _, c := range p.Counters {
		list = append(list, wire.Counter{Name: c.Name, Total: c.Total})
	}
	if list == nil || trees == nil {
		return list, nil
	}
	tree, err := trees(p.Root)
	if err != nil {
		return nil, err
	}
	for i := range list {
		left := list[i].Total - ledger.Drawn(tree, p.UUID, list[i].Name, nil)
		list[i].Left = &left
	}
	return list, nil
}

// DrawsOf returns what a unit of each class of a provider draws from counters above.
func DrawsOf(classes *ledger.ClassTable, p *ledger.Provider) []ledger.DrawRecord {
	var list []ledger.DrawRecord
	for _, d := range p.Draws {
		list = append(list, ledger.DrawRecord{
			Class: classes.Name(d.Class), Counter: d.Counter, Amount: d.Amount, Mode: d.Mode,
		})
	}
	return list
}
