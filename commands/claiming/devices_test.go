package claiming_test

import (
	"context"
	"testing"

	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

var deviceOrders = []string{"", demand.OrderPack, demand.OrderSpread, demand.OrderRandom}

// deviceHosts are hosts of 8 devices, of which the first is used but for every so many hosts.
func deviceHosts(n, free int) *candidates.World {
	var all []*ledger.Provider
	for h := range n {
		root := &ledger.Provider{UUID: commandstest.NewID(), CreatedAt: int64(len(all))}
		root.Root = root.UUID
		all = append(all, root)
		for i := range 8 {
			p := &ledger.Provider{UUID: commandstest.NewID(), Root: root.UUID, Parent: root.UUID, CreatedAt: int64(len(all))}
			p.Inventories = []ledger.Inventory{{Class: 0, Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, Ratio: 1}}
			if i == 0 && h%free > 0 {
				p.Inventories[0].Used = 1
			}
			all = append(all, p)
		}
	}
	return candidates.NewWorld(all)
}

func searchOfDevices(world *candidates.World, steps int) *claiming.Search {
	return &claiming.Search{
		Ranking: candidates.NewRanking(world), Classes: ledger.NewClassTable([]ledger.Class{{ID: 0, Name: "PGPU"}}),
		MaxSteps: steps, Spare: 1, Consumer: func(ledger.UUID) (*ledger.Consumer, error) { return nil, nil },
	}
}

// gangsOfDevices are the rules that gangs of devices may have.
var gangsOfDevices = map[string][]demand.GangRule{
	"no rule": nil, "apart by provider": {{By: "provider", Rule: demand.GangApart}},
	"apart by tree": {{By: "tree", Rule: demand.GangApart}},
}

// TestGangOfDevices: each of 64 consumers gets the 8 devices of a host, of 100 that have all
// of theirs among thousands, and each search takes no more steps than are searched in turn.
func TestGangOfDevices(t *testing.T) {
	world := deviceHosts(2000, 20)
	for name, rules := range gangsOfDevices {
		for _, order := range deviceOrders {
			c := commandstest.ClaimOfDevices(8, 64, order)
			c.Gang = rules
			found, err := searchOfDevices(world, 40_000).Run(context.Background(), c)
			if err != nil || len(found.Choices) != 1 {
				t.Fatalf("%s, %q: %v", name, order, err)
			}
			taken := map[ledger.UUID]bool{}
			for _, member := range found.Choices[0].Members {
				for _, use := range member.Uses {
					if taken[use.Provider.UUID] || use.Provider.Root != member.Root.UUID {
						t.Fatalf("%s, %q: %s is given twice, or is not of host %s", name, order, use.Provider.UUID, member.Root.UUID)
					}
					taken[use.Provider.UUID] = true
				}
			}
			if len(taken) != 64*8 {
				t.Errorf("%s, %q: %d devices", name, order, len(taken))
			}
		}
	}
}

// TestImpossibleGangOfDevices: that there are too few whole hosts is certain, and not found
// out by trying.
func TestImpossibleGangOfDevices(t *testing.T) {
	for _, order := range deviceOrders {
		c := commandstest.ClaimOfDevices(8, 64, order)
		found, err := searchOfDevices(deviceHosts(630, 10), 40_000).Run(context.Background(), c)
		if err != nil || len(found.Choices) > 0 || found.Spent {
			t.Errorf("%q: %d choices, spent %v, %v", order, len(found.Choices), found.Spent, err)
		}
	}
}
