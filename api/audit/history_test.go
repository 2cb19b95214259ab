package audit_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

// history are all entries of a history, over pages.
func history(t testing.TB, q *questions, limit int, query string) []wire.HistoryEntry {
	t.Helper()
	target := fmt.Sprintf("/audit/history?limit=%d&%s", limit, query)
	return pages(t, q, target, "before", func(page audit.Page) ([]wire.HistoryEntry, string) {
		if len(page.Entries) > limit {
			t.Fatalf("%s: %d entries", query, len(page.Entries))
		}
		return page.Entries, page.Next
	})
}

func amount(state any) float64 {
	held, _ := state.(map[string]any)
	if held == nil {
		return 0
	}
	return held["allocations"].([]any)[0].(map[string]any)["amount"].(float64)
}

// TestHistory changes a consumer many times, removes it and makes it again.
func TestHistory(t *testing.T) {
	l, q := inMemory(t)
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 1000})
	id := commandstest.NewID()
	consumer := "consumer=" + id.String()
	var want []string // what each change did, newest first
	held, made := 0, []ledger.Address{}
	change := func(c commands.Command, amount int) {
		made = append(made, l.Accept(t, c))
		want = append([]string{fmt.Sprint(made[len(made)-1], " test ", held, " to ", amount)}, want...)
		held = amount
	}
	for i := range 120 {
		c := commandstest.Allocate(id, provider, "VCPU", int64(i%7+1))
		if held > 0 {
			c.Allocations[0].Generation = &made[len(made)-1].Sequence
		}
		change(c, i%7+1)
		if i%50 == 49 {
			change(&commands.ReleaseConsumer{Consumer: id}, 0)
		}
		l.Accept(t, holding("project", provider, 1)) // another consumer's
	}
	for _, limit := range []int{1, 7, 50, 1000} {
		var got []string
		for _, e := range history(t, q, limit, consumer) {
			got = append(got, fmt.Sprint(e.Address, " ", e.Actor, " ", amount(e.Before), " to ", amount(e.After)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	entries := history(t, q, 1000, consumer)
	middle := url.QueryEscape(entries[60].Time)
	for query, count := range map[string]int{
		"provider=" + provider.String(): 2 + len(made) + 120, "project=project": len(made) + 120,
		consumer + "&kind=ReleaseConsumer": 2,
		consumer + "&since=" + middle:      61, consumer + "&until=" + middle: len(made) - 60,
		fmt.Sprint(consumer, "&at=", made[3].Sequence): 4, "consumer=" + commandstest.NewID().String(): 0,
	} {
		if got := history(t, q, 64, query); len(got) != count {
			t.Errorf("%s: %d entries, not %d", query, len(got), count)
		}
	}
	one := history(t, q, 10, "command="+entries[5].CommandID.String())
	if len(one) != 1 || one[0].Address != entries[5].Address {
		t.Fatalf("by command: %+v", one)
	}
	touched := "consumer " + id.String()
	was, is := one[0].Before.(map[string]any)[touched], one[0].After.(map[string]any)[touched]
	if amount(was) != amount(entries[5].Before) || amount(is) != amount(entries[5].After) || amount(is) == 0 {
		t.Errorf("the command did %+v", one[0])
	}
}
