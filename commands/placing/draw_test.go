package placing_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
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

// TestDrawing: claims that draw on random reservations take just what those hold: nothing
// comes or goes, and a claim is only rejected where no provider holds enough for it.
func TestDrawing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := start(t)
		defer l.Stop(t)
		classes := []string{"VCPU", "DISK_GB"}
		hosts := l.Providers(
			t, 3, units(8), commands.Inventory{Class: "DISK_GB", Total: 3, Ratio: new(2.5)},
		)
		var reservations []ledger.UUID
		for range 2 {
			c := &commands.Reserve{Seconds: 60, Projects: []string{"q"}, Allocations: []commands.ConsumerAllocations{{
				Consumer: commandstest.NewID(), Project: "r", User: "u",
			}}}
			for _, host := range hosts {
				for _, class := range classes {
					if n := rapid.Int64Range(0, 3).Draw(rt, "reserved"); n > 0 {
						c.Allocations[0].Resources = append(c.Allocations[0].Resources, commands.ProviderAllocation{
							Provider: host, Class: class, Amount: n,
						})
					}
				}
			}
			if len(c.Allocations[0].Resources) > 0 {
				l.Accept(t, c)
				reservations = append(reservations, c.Allocations[0].Consumer)
			}
		}
		for range 6 {
			if len(reservations) == 0 {
				return
			}
			from := rapid.SampledFrom(reservations).Draw(rt, "from")
			asked := map[string]int64{rapid.SampledFrom(classes).Draw(rt, "class"): rapid.Int64Range(1, 3).Draw(rt, "amount")}
			if rapid.Bool().Draw(rt, "more") {
				asked[classes[0]], asked[classes[1]] = 1, rapid.Int64Range(1, 2).Draw(rt, "disk")
			}
			c := drawing(from, commandstest.NewID(), asked)
			c.For[0].Project = rapid.SampledFrom([]string{"q", "r"}).Draw(rt, "project")
			c.Prefer = &demand.ClaimPreference{Order: rapid.SampledFrom([]string{"", "pack", "spread", "random"}).Draw(rt, "order")}
			before, left := usedOf(t, l), heldOf(t, l, from)
			possible := slices.ContainsFunc(hosts, func(host ledger.UUID) bool {
				for class, amount := range asked {
					if left[host.String()+class] < amount {
						return false
					}
				}
				return true
			})
			o := l.Submit(t, c)
			if possible != (o.Rejection == nil) {
				rt.Fatalf("%v of what a reservation has left, %v: %v", asked, left, o.Rejection)
			}
			got := heldOf(t, l, c.For[0].Consumer)
			for slot, amount := range heldOf(t, l, from) {
				got[slot] += amount
			}
			if !maps.Equal(got, left) {
				rt.Fatalf("there were %v reserved, and are %v reserved and claimed", left, got)
			}
			if after := usedOf(t, l); !maps.Equal(before, after) {
				rt.Fatalf("%v was used before, and %v after", before, after)
			}
		}
	})
}

// heldOf is what a consumer holds, by provider and class.
func heldOf(t *testing.T, l *commandstest.Ledger, id ledger.UUID) map[string]int64 {
	view := l.Views.View()
	classes := commandstest.Must(view.Classes())
	held := map[string]int64{}
	c, _, err := view.Consumer(id)
	ledgertest.OK(t, err)
	if c != nil {
		for _, a := range c.Allocations {
			held[a.Provider.String()+classes.Name(a.Class)] = a.Amount
		}
	}
	return held
}

// usedOf is what is used of all providers.
func usedOf(t *testing.T, l *commandstest.Ledger) map[string]int64 {
	used := map[string]int64{}
	err := l.Views.View().Providers(func(p *ledger.Provider) bool {
		for _, inv := range p.Inventories {
			used[p.UUID.String()+fmt.Sprint(inv.Class)] = inv.Used
		}
		return true
	})
	ledgertest.OK(t, err)
	return used
}
