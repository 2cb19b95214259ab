package placing_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestClaimsOfDevices: whole hosts are claimed until none is left, under every preference,
// and the next claim is told that there is nothing.
func TestClaimsOfDevices(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for h := range 10 {
		host := l.Provider(t, fmt.Sprint("host-", h), commands.Inventory{Class: "VCPU", Total: 64})
		for i := range 8 {
			id := commandstest.NewID()
			l.Accept(t, &commands.CreateProvider{Provider: id, Name: fmt.Sprint(h, "-", i), Parent: host})
			l.Accept(t, &commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{{Class: "PGPU", Total: 1}}})
		}
	}
	one := commandstest.ClaimOfDevices(1, 1, demand.OrderPack)
	for range 2 { // one of the hosts is not whole any more, or two
		one.For[0].Consumer = commandstest.NewID()
		l.Accept(t, &commands.Claim{Claim: *one})
	}
	submit := func(c *demand.Claim) commands.Outcome {
		o, err := l.Writer.Submit(context.Background(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: &commands.Claim{Claim: *c}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for i := range 8 {
		c := commandstest.ClaimOfDevices(8, 1, []string{demand.OrderSpread, demand.OrderPack, demand.OrderRandom}[i%3])
		c.Alternates = 2
		roots := map[ledger.UUID]bool{}
		for _, a := range claimed(t, submit(c))[0].Allocations {
			p, _, err := l.Views.View().Provider(a.Provider)
			if err != nil {
				t.Fatal(err)
			}
			roots[p.Root] = true
		}
		if len(roots) != 1 {
			t.Errorf("the devices are of %d hosts", len(roots))
		}
	}
	for range 2 { // the two were on one host, or on two
		o := submit(commandstest.ClaimOfDevices(8, 1, demand.OrderSpread))
		if o.Rejection != nil && o.Rejection.Code != demand.CodeNoCandidates {
			t.Errorf("%+v", o.Rejection)
		}
	}
	o := submit(commandstest.ClaimOfDevices(8, 1, demand.OrderPack))
	if o.Rejection == nil || o.Rejection.Code != demand.CodeNoCandidates {
		t.Errorf("no host is left: %+v", o)
	}
}

// TestGangAfterItsTopology: a gang stands in the topology that its batch has set, and in none that it
// has removed.
func TestGangAfterItsTopology(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	host, rack := l.Provider(t, "host", commands.Inventory{Class: "PGPU", Total: 8}), commandstest.NewID()
	l.Accept(t, &commands.ReplaceProviderAggregates{Provider: host, Aggregates: []ledger.UUID{rack}})
	set := &commands.SetTopology{Name: "fabric", Topology: &demand.Topology{
		Levels: []string{"rack"}, Members: map[string]demand.TopologyMember{rack.String(): {Level: "rack", Name: "r"}},
	}}
	gang := func() *commands.Claim {
		c := commandstest.ClaimOfDevices(1, 2, demand.OrderPack)
		c.Gang = []demand.GangRule{{Topology: "fabric", Within: demand.Smallest}}
		return &commands.Claim{Claim: *c}
	}
	l.Accept(t, &commands.Batch{Commands: []commands.Command{set, gang()}})
	l.Accept(t, gang())
	o := l.Submit(t, &commands.Batch{Commands: []commands.Command{&commands.SetTopology{Name: "fabric"}, gang()}})
	if o.Rejection == nil || o.Rejection.Code != demand.CodeTopologyUnknown {
		t.Errorf("without its topology: %+v", o.Rejection)
	}
}
