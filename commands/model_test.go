package commands_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/ledger/memlog"
)

// slot is a class of a provider.
type slot struct {
	provider ledger.UUID
	class    string
}

// holdings are what consumers hold, in the order of their requests.
type holdings map[ledger.UUID][]commands.ProviderAllocation

func (h holdings) used(of slot) (sum int64) {
	for _, list := range h {
		for _, r := range list {
			if of == (slot{r.Provider, r.Class}) {
				sum += r.Amount
			}
		}
	}
	return sum
}

// naive is the ledger in its simplest form: maps, and loops over everything. It
// shares no code with State.
type naive struct {
	total     map[slot]int64
	held      holdings
	genOf     map[ledger.UUID]uint64 // of consumers
	providers map[ledger.UUID]int64  // their generations
}

// allocate returns the code with which a request must be rejected, "" for none.
func (n *naive) allocate(c *commands.AllocateForConsumers) demand.Code {
	after := maps.Clone(n.held)
	for _, a := range c.Allocations {
		gen, exists := n.genOf[a.Consumer]
		if (a.Generation != nil) != exists || exists && gen != *a.Generation {
			return demand.CodeConsumerConflict
		}
		delete(after, a.Consumer)
	}
	for _, a := range c.Allocations {
		for _, r := range a.Resources {
			if _, ok := n.providers[r.Provider]; !ok {
				return demand.CodeProviderUnknown
			}
		}
	}
	for _, a := range c.Allocations {
		for i, r := range a.Resources {
			of := slot{r.Provider, r.Class}
			total, ok := n.total[of]
			if !ok {
				return demand.CodeNoInventory
			}
			after[a.Consumer] = a.Resources[:i+1]
			if used := after.used(of); used > total && used > n.held.used(of) {
				return demand.CodeCapacityExceeded
			}
		}
	}
	return ""
}

func (n *naive) apply(c *commands.AllocateForConsumers, sequence uint64) {
	moved := make(map[ledger.UUID]bool)
	for _, a := range c.Allocations {
		touched := a.Resources
		if len(touched) == 0 {
			touched = n.held[a.Consumer]
		}
		for _, r := range touched {
			moved[r.Provider] = true
		}
		n.release(a.Consumer)
		if len(a.Resources) > 0 {
			n.held[a.Consumer], n.genOf[a.Consumer] = a.Resources, sequence
		}
	}
	for p := range moved {
		n.providers[p]++
	}
}

func (n *naive) release(consumer ledger.UUID) {
	delete(n.held, consumer)
	delete(n.genOf, consumer)
}

// TestModel runs random commands against the ledger and the naive model. They
// must agree on every answer and on all contents afterwards, and a replay of the
// log must give the same bytes.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
		defer l.Remove(t)
		providers := l.Providers(t, 2, units("VCPU", 6), units("DISK_GB", 4))
		consumers := []ledger.UUID{
			commandstest.NewID(), commandstest.NewID(), commandstest.NewID(), commandstest.NewID(),
		}
		model := &naive{
			total: map[slot]int64{}, held: holdings{}, genOf: map[ledger.UUID]uint64{}, providers: map[ledger.UUID]int64{},
		}
		for _, id := range providers {
			model.providers[id], model.total[slot{id, "VCPU"}], model.total[slot{id, "DISK_GB"}] = 1, 6, 4
		}
		submit := func(rt *rapid.T, c commands.Command, want demand.Code) uint64 {
			outcome := l.Submit(t, c)
			if r := outcome.Rejection; (r == nil) != (want == "") || r != nil && r.Code != want {
				rt.Fatalf("got %v, want %q", r, want)
			}
			return outcome.Address.Sequence
		}
		rt.Repeat(map[string]func(*rapid.T){
			"allocate": func(rt *rapid.T) {
				c, some := &commands.AllocateForConsumers{}, rapid.SampledFrom(consumers)
				for _, id := range rapid.SliceOfNDistinct(some, 1, 3, rapid.ID[ledger.UUID]).Draw(rt, "consumers") {
					c.Allocations = append(c.Allocations, drawAllocations(rt, model, id, providers))
				}
				want := model.allocate(c)
				if sequence := submit(rt, c, want); want == "" {
					model.apply(c, sequence)
				}
			},
			"release": func(rt *rapid.T) {
				id := rapid.SampledFrom(consumers).Draw(rt, "consumer")
				want := demand.Code("")
				if _, exists := model.genOf[id]; !exists {
					want = demand.CodeConsumerNotFound
				}
				submit(rt, &commands.ReleaseConsumer{Consumer: id}, want)
				model.release(id)
			},
			"resize": func(rt *rapid.T) {
				id := rapid.SampledFrom(providers).Draw(rt, "provider")
				total := rapid.Int64Range(1, 8).Draw(rt, "total")
				l.Accept(t, &commands.UpdateInventory{Provider: id, Inventory: units("VCPU", total)})
				model.total[slot{id, "VCPU"}] = total
				model.providers[id]++
			},
			"": func(rt *rapid.T) {
				if diff := cmp.Diff(model.contents(providers, consumers), contents(rt, l, providers, consumers)); diff != "" {
					rt.Fatalf("of the model (-) and of the ledger (+):\n%s", diff)
				}
			},
		})
		commandstest.CheckReplay(t, l)
	})
}

func drawAllocations(rt *rapid.T, model *naive, id ledger.UUID, providers []ledger.UUID) commands.ConsumerAllocations {
	a := commands.ConsumerAllocations{Consumer: id, Project: "project", User: "user"}
	if gen, exists := model.genOf[id]; exists {
		a.Generation = &gen
	}
	if rapid.IntRange(0, 9).Draw(rt, "stale") == 0 {
		a.Generation = ptr[uint64](999_999)
	}
	for _, p := range append(providers, ledger.UUID{15: 7}) {
		for _, class := range []string{"VCPU", "DISK_GB", "PCPU"} {
			chance := 3
			if class == "PCPU" || p == (ledger.UUID{15: 7}) {
				chance = 40 // mistakes are rare
			}
			if rapid.IntRange(0, chance).Draw(rt, "take") == 0 {
				a.Resources = append(a.Resources, commands.ProviderAllocation{
					Provider: p, Class: class, Amount: rapid.Int64Range(1, 5).Draw(rt, "amount"),
				})
			}
		}
	}
	if len(a.Resources) > 1 {
		a.Resources = rapid.Permutation(a.Resources).Draw(rt, "order")
	}
	return a
}

// contents are lines about providers, consumers, and what their project uses.
func (n *naive) contents(providers, consumers []ledger.UUID) (lines []string) {
	usage := map[string]int64{}
	for _, id := range providers {
		inventories, holders := map[string]string{}, map[string]bool{}
		for _, class := range []string{"VCPU", "DISK_GB"} {
			of := slot{id, class}
			inventories[class] = fmt.Sprint(n.held.used(of), " of ", n.total[of])
			usage[class] += n.held.used(of)
		}
		for consumer, list := range n.held {
			for _, r := range list {
				if r.Provider == id {
					holders[consumer.String()] = true
				}
			}
		}
		lines = append(lines, fmt.Sprint(id, n.providers[id], inventories, slices.Sorted(maps.Keys(holders))))
	}
	for _, id := range consumers {
		lines = append(lines, fmt.Sprint(id, n.genOf[id], n.held[id]))
	}
	maps.DeleteFunc(usage, func(_ string, amount int64) bool { return amount == 0 })
	return append(lines, fmt.Sprint(usage))
}

// contents are the same lines, from the read models.
func contents(rt *rapid.T, l *commandstest.Ledger, providers, consumers []ledger.UUID) (lines []string) {
	view := l.Views.View()
	classes := commandstest.Must(view.Classes())
	for _, id := range providers {
		p, _, err := view.Provider(id)
		ledgertest.OK(rt, err)
		inventories, holders := map[string]string{}, []string{}
		for _, inv := range p.Inventories {
			inventories[classes.Name(inv.Class)] = fmt.Sprint(inv.Used, " of ", inv.Total)
		}
		ledgertest.OK(rt, view.ProviderConsumers(id, func(c *ledger.Consumer) bool {
			holders = append(holders, c.UUID.String())
			return true
		}))
		lines = append(lines, fmt.Sprint(id, p.Generation, inventories, holders))
	}
	for _, id := range consumers {
		c, found, err := view.Consumer(id)
		ledgertest.OK(rt, err)
		if !found {
			c = &ledger.Consumer{}
		}
		var held []commands.ProviderAllocation
		for _, a := range c.Allocations {
			held = append(held, commands.ProviderAllocation{
				Provider: a.Provider, Class: classes.Name(a.Class), Amount: a.Amount,
			})
		}
		lines = append(lines, fmt.Sprint(id, c.Generation, held))
	}
	usage := map[string]int64{}
	for _, u := range commandstest.Must(view.Usages("project", "")) {
		for _, a := range u.Amounts {
			usage[classes.Name(a.Class)] += a.Amount
		}
	}
	return append(lines, fmt.Sprint(usage))
}
