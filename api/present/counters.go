package present

import (
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// CountersOf returns the counters of a provider, and what is left of each: below 0 where more is drawn.
func CountersOf(world *candidates.World, p *ledger.Provider) []wire.Counter {
	if len(p.Counters) == 0 {
		return nil
	}
	forest := world.Forest(p.Root)
	list := make([]wire.Counter, len(p.Counters))
	for i, c := range p.Counters {
		list[i] = wire.Counter{Name: c.Name, Total: c.Total, Left: c.Total - ledger.Drawn(forest, p.UUID, c.Name, nil)}
	}
	return list
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
