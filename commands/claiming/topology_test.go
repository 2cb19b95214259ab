package claiming_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

// fabric is a topology of blocks of racks, with hosts that have room for some members each.
func fabric(racks ...[]int64) (*ledger.Topology, []*ledger.Provider) {
	top := &ledger.Topology{Name: "fabric", Levels: []string{"block", "rack"}}
	var hosts []*ledger.Provider
	for b := range (len(racks) + 1) / 2 {
		block := ledger.TopologyMember{Aggregate: ledgertest.ID(4, byte(b)), Name: fmt.Sprint("b", b)}
		top.Members = append(top.Members, block)
	}
	for r, rooms := range racks {
		rack := ledgertest.ID(3, byte(r))
		top.Members = append(top.Members, ledger.TopologyMember{
			Aggregate: rack, Level: 1, Name: fmt.Sprint("r", r), Parent: ledgertest.ID(4, byte(r/2)),
		})
		for _, room := range rooms {
			id := ledgertest.ID(1, byte(len(hosts)))
			hosts = append(hosts, &ledger.Provider{
				UUID: id, Root: id, CreatedAt: int64(len(hosts)), Aggregates: []ledger.UUID{rack},
				Inventories: []ledger.Inventory{{Class: 0, Total: room, MinUnit: 1, MaxUnit: room, StepSize: 1, Ratio: 1}},
			})
		}
	}
	return top, hosts
}

// searchFabric searches for a claim, and counts its members by rack.
func searchFabric(
	t *testing.T, top *ledger.Topology, hosts []*ledger.Provider, c *demand.Claim,
) (map[ledger.UUID]int, *demand.Found) {
	t.Helper()
	if r := c.Check(); r != nil {
		t.Fatal(r)
	}
	search := claiming.Search{
		Ranking:  candidates.NewRanking(candidates.NewWorld(hosts)),
		Classes:  ledger.NewClassTable([]ledger.Class{{Name: vcpu}}),
		Consumer: func(ledger.UUID) (*ledger.Consumer, error) { return nil, nil },
		Named:    demand.Named{Topology: func(string) (*ledger.Topology, bool, error) { return top, true, nil }},
	}
	found, err := search.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	racks := make(map[ledger.UUID]int)
	for _, choice := range found.Choices {
		for _, member := range choice.Members {
			racks[member.Root.Aggregates[0]]++
		}
	}
	return racks, found
}

func gangOf(members int, rule demand.GangRule) *demand.Claim {
	rule.Topology = "fabric"
	return &demand.Claim{
		For:      []demand.ClaimConsumer{{Consumer: ledgertest.ID(2, 1), Project: "p", User: "u", Count: members}},
		Requests: []demand.CandidateRequest{{Groups: []demand.RequestGroup{{Resources: map[string]int64{vcpu: 1}}}}},
		Gang:     []demand.GangRule{rule},
	}
}

// TestGangInTopology: a gang stands in one domain, in whole slices, spread as it says, or nowhere.
func TestGangInTopology(t *testing.T) {
	t.Parallel()
	top, hosts := fabric([]int64{8, 8, 3}, []int64{8, 5}, []int64{12, 12}, []int64{7})
	rack := func(n byte) ledger.UUID { return ledgertest.ID(3, n) }
	for name, one := range map[string]struct {
		members int
		rule    demand.GangRule
		want    map[ledger.UUID]int
	}{
		"the tightest rack":        {13, demand.GangRule{Within: "rack"}, map[ledger.UUID]int{rack(1): 13}},
		"whole slices":             {16, demand.GangRule{Within: "rack", Slices: 8}, map[ledger.UUID]int{rack(0): 16}},
		"no rack has three slices": {24, demand.GangRule{Within: "rack", Slices: 8}, nil},
		"a block has three slices": {
			24, demand.GangRule{Within: "smallest", Slices: 8}, map[ledger.UUID]int{rack(0): 16, rack(1): 8},
		},
		"over the racks of a block": {
			6, demand.GangRule{Within: "block", Spread: demand.SpreadOver{Level: "rack"}},
			map[ledger.UUID]int{rack(2): 3, rack(3): 3},
		},
		"more than any block has": {33, demand.GangRule{Within: "block"}, nil},
	} {
		racks, found := searchFabric(t, top, hosts, gangOf(one.members, one.rule))
		if fmt.Sprint(racks) != fmt.Sprint(one.want) && len(racks)+len(one.want) > 0 || found.Spent {
			t.Errorf("%s: %v, want %v (uncertain: %v)", name, racks, one.want, found.Spent)
		}
	}
}

// TestGangOfThousands: 4,096 consumers stand in the 512 hosts of a block, eight in each.
func TestGangOfThousands(t *testing.T) {
	t.Parallel()
	rooms := make([]int64, 256)
	for i := range rooms {
		rooms[i] = 9
	}
	top, hosts := fabric(rooms, rooms)
	for i, host := range hosts {
		host.UUID[14], host.UUID[15] = byte(i>>8), byte(i)
		host.Root = host.UUID
	}
	c := gangOf(demand.MaxClaimConsumers, demand.GangRule{Within: "smallest", Slices: 8})
	racks, _ := searchFabric(t, top, hosts, c)
	if racks[ledgertest.ID(3, 0)] != 2048 || racks[ledgertest.ID(3, 1)] != 2048 {
		t.Error(racks)
	}
}
