package commands_test

import (
	"fmt"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/ledger/memlog"
)

// naive is the ledger in its simplest form: maps, and loops over everything. It
// shares no code with State.
type naive struct {
	total     map[string]int64            // "provider/class"
	held      map[string]map[string]int64 // consumer -> "provider/class" -> amount
	order     map[string][]string         // consumer -> "provider/class", as its request had them
	genOf     map[string]uint64           // consumer -> generation
	providers map[string]int64            // provider -> generation
}

func key(provider ledger.UUID, class string) string { return provider.String() + "/" + class }

func (n *naive) used(slot string) (sum int64) {
	for _, holds := range n.held {
		sum += holds[slot]
	}
	return sum
}

// allocate returns the code with which a request must be rejected, "" for none.
func (n *naive) allocate(c *commands.AllocateForConsumers) demand.Code {
	for _, a := range c.Allocations {
		gen, exists := n.genOf[a.Consumer.String()]
		if a.Generation == nil && exists || a.Generation != nil && (!exists || gen != *a.Generation) {
			return demand.CodeConsumerConflict
		}
	}
	before := make(map[string]int64)
	for slot := range n.total {
		before[slot] = n.used(slot)
	}
	others := make(map[string]int64)
	for slot := range n.total {
		others[slot] = before[slot]
		for _, a := range c.Allocations {
			others[slot] -= n.held[a.Consumer.String()][slot]
		}
	}
	for _, a := range c.Allocations {
		for _, r := range a.Resources {
			if _, ok := n.providers[r.Provider.String()]; !ok {
				return demand.CodeProviderUnknown
			}
		}
	}
	for _, a := range c.Allocations {
		for _, r := range a.Resources {
			slot := key(r.Provider, r.Class)
			total, ok := n.total[slot]
			if !ok {
				return demand.CodeNoInventory
			}
			others[slot] += r.Amount
			if others[slot] > total && others[slot] > before[slot] {
				return demand.CodeCapacityExceeded
			}
		}
	}
	return ""
}

func (n *naive) apply(c *commands.AllocateForConsumers, sequence uint64) {
	moved := make(map[string]bool)
	for _, a := range c.Allocations {
		id := a.Consumer.String()
		if len(a.Resources) == 0 {
			for slot := range n.held[id] {
				moved[slot[:36]] = true
			}
			n.release(id)
			continue
		}
		n.held[id], n.order[id] = make(map[string]int64), nil
		n.genOf[id] = sequence
		for _, r := range a.Resources {
			n.held[id][key(r.Provider, r.Class)] = r.Amount
			n.order[id] = append(n.order[id], key(r.Provider, r.Class))
			moved[r.Provider.String()] = true
		}
	}
	for p := range moved {
		n.providers[p]++
	}
}

func (n *naive) release(consumer string) {
	delete(n.held, consumer)
	delete(n.order, consumer)
	delete(n.genOf, consumer)
}

// TestModel runs random commands against the ledger and the naive model. They
// must agree on every answer and on all contents afterwards, and a replay of the
// log must give the same bytes.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		l := commandstest.Start(t, dir, &memlog.Log{})
		defer l.Stop(t)
		model := &naive{
			total: map[string]int64{}, held: map[string]map[string]int64{}, genOf: map[string]uint64{},
			order: map[string][]string{}, providers: map[string]int64{},
		}
		var providers, consumers []ledger.UUID
		for i := range 2 {
			id := l.Provider(
				t, fmt.Sprint("p", i), commands.Inventory{Class: "VCPU", Total: 6},
				commands.Inventory{Class: "DISK_GB", Total: 4},
			)
			providers = append(providers, id)
			model.providers[id.String()] = 1
			model.total[key(id, "VCPU")], model.total[key(id, "DISK_GB")] = 6, 4
		}
		for range 4 {
			consumers = append(consumers, commandstest.NewID())
		}
		rt.Repeat(map[string]func(*rapid.T){
			"allocate": func(rt *rapid.T) {
				c := &commands.AllocateForConsumers{}
				for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(consumers), 1, 3, rapid.ID[ledger.UUID]).Draw(rt, "consumers") {
					c.Allocations = append(c.Allocations, drawAllocations(rt, model, id, providers))
				}
				want := model.allocate(c)
				outcome := l.Submit(t, c)
				checkCode(rt, outcome.Rejection, want)
				if want == "" {
					model.apply(c, outcome.Address.Sequence)
				}
			},
			"release": func(rt *rapid.T) {
				id := rapid.SampledFrom(consumers).Draw(rt, "consumer")
				want := demand.Code("")
				if _, exists := model.genOf[id.String()]; !exists {
					want = demand.CodeConsumerNotFound
				}
				checkCode(rt, l.Submit(t, &commands.ReleaseConsumer{Consumer: id}).Rejection, want)
				model.release(id.String())
			},
			"resize": func(rt *rapid.T) {
				id := rapid.SampledFrom(providers).Draw(rt, "provider")
				total := rapid.Int64Range(1, 8).Draw(rt, "total")
				l.Accept(t, &commands.UpdateInventory{Provider: id, Inventory: commands.Inventory{Class: "VCPU", Total: total}})
				model.total[key(id, "VCPU")] = total
				model.providers[id.String()]++
			},
			"": func(rt *rapid.T) { compare(rt, l, model, providers, consumers) },
		})
		commandstest.CheckReplay(t, l)
	})
}

func drawAllocations(rt *rapid.T, model *naive, id ledger.UUID, providers []ledger.UUID) commands.ConsumerAllocations {
	a := commands.ConsumerAllocations{Consumer: id, Project: "project", User: "user"}
	if gen, exists := model.genOf[id.String()]; exists {
		a.Generation = &gen
	}
	if rapid.IntRange(0, 9).Draw(rt, "stale") == 0 {
		wrong := uint64(999_999)
		a.Generation = &wrong
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

func checkCode(rt *rapid.T, got *demand.Rejection, want demand.Code) {
	rt.Helper()
	if got == nil && want != "" || got != nil && got.Code != want {
		rt.Fatalf("got %v, want %q", got, want)
	}
}

func orEmpty(c *ledger.Consumer) *ledger.Consumer {
	if c == nil {
		return &ledger.Consumer{}
	}
	return c
}

func compare(rt *rapid.T, l *commandstest.Ledger, model *naive, providers, consumers []ledger.UUID) {
	rt.Helper()
	view := l.Views.View()
	classes, err := view.Classes()
	if err != nil {
		rt.Fatal(err)
	}
	owned := make(map[string]int64)
	for _, id := range providers {
		p, found, err := view.Provider(id)
		if err != nil || !found || p.Generation != model.providers[id.String()] {
			rt.Fatalf("provider %+v, %v, %v; want generation %d", p, found, err, model.providers[id.String()])
		}
		for _, inv := range p.Inventories {
			slot := key(id, classes.Name(inv.Class))
			if inv.Used != model.used(slot) || inv.Total != model.total[slot] {
				rt.Fatalf("%s: %d of %d used, want %d of %d", slot, inv.Used, inv.Total, model.used(slot), model.total[slot])
			}
			owned[classes.Name(inv.Class)] += inv.Used
		}
		var holders, want []string
		if err := view.ProviderConsumers(id, func(c *ledger.Consumer) bool {
			holders = append(holders, c.UUID.String())
			return true
		}); err != nil {
			rt.Fatal(err)
		}
		for consumer, held := range model.held {
			if held[key(id, "VCPU")]+held[key(id, "DISK_GB")] > 0 {
				want = append(want, consumer)
			}
		}
		sort.Strings(want)
		if fmt.Sprint(holders) != fmt.Sprint(want) {
			rt.Fatalf("consumers of %s: %v, want %v", id, holders, want)
		}
	}
	for _, id := range consumers {
		c, found, err := view.Consumer(id)
		if err != nil {
			rt.Fatal(err)
		}
		want, exists := model.genOf[id.String()]
		if found != exists || found && c.Generation != want {
			rt.Fatalf("consumer %+v, want generation %d", c, want)
		}
		var order []string
		for _, a := range orEmpty(c).Allocations {
			order = append(order, key(a.Provider, classes.Name(a.Class)))
		}
		if !slices.Equal(order, model.order[id.String()]) {
			rt.Fatalf("consumer %s holds %v, in the order of the request %v", id, order, model.order[id.String()])
		}
	}
	usages, err := view.Usages("project", "")
	if err != nil {
		rt.Fatal(err)
	}
	for _, u := range usages {
		for _, a := range u.Amounts {
			owned[classes.Name(a.Class)] -= a.Amount
		}
	}
	for class, rest := range owned {
		if rest != 0 {
			rt.Fatalf("the project's usage of %s is off by %d", class, rest)
		}
	}
}
