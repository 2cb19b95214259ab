package placement_test

import (
	"fmt"
	"testing"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

// TestCapacity: how many more allocations fit is answered in pages of trees, with sums of all
// of them, at any version, now and then.
func TestCapacity(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	const hosts = 1003
	first := l.Providers(t, hosts, commands.Inventory{Class: "VCPU", Total: 8})[0]
	aggregate := commandstest.NewID()
	l.Accept(t, &commands.ReplaceProviderAggregates{Provider: first, Aggregates: []ledger.UUID{aggregate}})
	before := l.Views.View().Sequence()
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), first, "VCPU", 5))
	get := func(query string) wire.Capacity {
		t.Helper()
		return told[wire.Capacity](t, h, "1.0", "/capacity?"+query)
	}
	const all = 2*hosts - 2
	page := get("resources=VCPU:4&by=aggregate")
	if page.Capacity != all || !page.Exact || page.AtLeast != all || page.AtMost != all || len(page.Trees) != 1000 ||
		page.Next == nil || page.Trees[0].Capacity != 2 || len(page.Aggregates) != 0 {
		t.Fatalf("%d, %v, %d to %d, %d trees, next %v", page.Capacity, page.Exact, page.AtLeast, page.AtMost, len(page.Trees), page.Next)
	}
	last := get("resources=VCPU:4&marker=" + page.Next.String())
	if last.Capacity != all || len(last.Trees) != hosts-1-1000 || last.Next != nil || last.Trees[0] == page.Trees[999] {
		t.Errorf("the last page: %+v", last)
	}
	then := get(fmt.Sprint("resources=VCPU:4&by=aggregate&at=", before))
	if then.Capacity != 2*hosts || len(then.Aggregates) != 1 || then.Aggregates[0] != (wire.AggregateCapacity{
		Aggregate: aggregate, Capacity: 2,
	}) {
		t.Errorf("then: %d, %+v", then.Capacity, then.Aggregates)
	}
}
