package placing_test

import (
	"sync"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func drawing(from, consumer ledger.UUID, resources map[string]int64) *commands.Claim {
	c := claimOf(consumer, resources)
	c.For[0].FromReservation = &from
	return c
}

// TestRaceForReservation: claims for one consumer and for two draw on one reservation at once.
// Every slot is given away once, and the reservation ends with its last slot.
func TestRaceForReservation(t *testing.T) {
	const hosts, slots = 5, 4
	l := start(t)
	reservation := commandstest.NewID()
	reserve := &commands.Reserve{Seconds: 3600, Allocations: []commands.ConsumerAllocations{{
		Consumer: reservation, Project: "p", User: "u",
	}}}
	for _, host := range l.Providers(t, hosts, units(slots+2)) {
		reserve.Allocations[0].Resources = append(
			reserve.Allocations[0].Resources, commands.ProviderAllocation{Provider: host, Class: "VCPU", Amount: slots},
		)
	}
	l.Accept(t, reserve)
	var mu sync.Mutex
	won := map[ledger.UUID]int{}
	var all sync.WaitGroup
	for i := range 2 * hosts * slots {
		all.Go(func() {
			c := drawing(reservation, commandstest.NewID(), cores(1))
			c.For[0].Count = 1 + i%2
			o := l.Submit(t, c)
			switch codeOf(o.Rejection) {
			case "":
				mu.Lock()
				defer mu.Unlock()
				for _, place := range placesOf(t, o) {
					won[place]++
				}
			case demand.CodeNoCandidates, demand.CodeNoReservation:
			default:
				t.Errorf("it was rejected with %s", o.Rejection)
			}
		})
	}
	all.Wait()
	for id, n := range won {
		if n != slots {
			t.Errorf("of host %s %d slots of %d were given away", id, n, slots)
		}
	}
	if _, exists, err := l.Views.View().Consumer(reservation); len(won) != hosts || exists || err != nil {
		t.Errorf("%d hosts of %d were drawn on, and the reservation is still there: %v, %v", len(won), hosts, exists, err)
	}
}
