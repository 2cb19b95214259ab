package audit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

func history(t *testing.T, l *commandstest.Ledger) http.Handler {
	return ask(t, l, nil).handlers["/audit/history"]
}

// read fetches one page.
func read(t testing.TB, h http.Handler, query string) (page audit.Page, status int) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/audit/history?"+query, nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
	}
	return page, w.Code
}

// all follows the pages to the end.
func all(t testing.TB, h http.Handler, query string, limit int) []wire.HistoryEntry {
	t.Helper()
	var entries []wire.HistoryEntry
	for next := ""; ; {
		page, status := read(t, h, fmt.Sprintf("%s&limit=%d%s", query, limit, next))
		if status != http.StatusOK || len(page.Entries) > limit {
			t.Fatalf("%s: %d, %d entries", query, status, len(page.Entries))
		}
		entries = append(entries, page.Entries...)
		if page.Next == "" {
			return entries
		}
		next = "&before=" + page.Next
	}
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
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	h := history(t, l)
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 1000})
	consumer := commandstest.NewID()
	var made []ledger.Address
	var held []float64
	var generation *uint64
	for i := range 120 {
		amount := int64(i%7 + 1)
		c := commandstest.Allocate(consumer, provider, "VCPU", amount)
		c.Allocations[0].Generation = generation
		made, held = append(made, l.Accept(t, c)), append(held, float64(amount))
		generation = &made[len(made)-1].Sequence
		if i%50 == 49 {
			made, held = append(made, l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer})), append(held, 0)
			generation = nil
		}
		l.Accept(t, commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1)) // another consumer's
	}
	for _, limit := range []int{1, 7, 50, 1000} {
		entries := all(t, h, "consumer="+consumer.String(), limit)
		if len(entries) != len(made) {
			t.Fatalf("limit %d: %d entries, not %d", limit, len(entries), len(made))
		}
		for i, e := range entries {
			k := len(made) - 1 - i
			before := 0.0
			if k > 0 {
				before = held[k-1]
			}
			if e.Address != made[k].String() || e.Actor != "test" || e.Time == "" || amount(e.Before) != before ||
				amount(e.After) != held[k] {
				t.Fatalf("limit %d: %+v, wanted %s with %v to %v", limit, e, made[k], before, held[k])
			}
		}
	}
	if got := len(all(t, h, "provider="+provider.String(), 100)); got != 2+len(made)+120 {
		t.Errorf("the provider's history has %d entries", got)
	}
	if got := len(all(t, h, "project=project", 64)); got != len(made)+120 {
		t.Errorf("the project's history has %d entries", got)
	}
	if got := len(all(t, h, "consumer="+consumer.String()+"&kind=ReleaseConsumer", 10)); got != 2 {
		t.Errorf("%d removals", got)
	}
	entries := all(t, h, "consumer="+consumer.String(), 1000)
	middle := url.QueryEscape(entries[60].Time)
	since, until := all(
		t, h, "consumer="+consumer.String()+"&since="+middle, 9,
	), all(
		t, h, "consumer="+consumer.String()+"&until="+middle, 9,
	)
	if len(since) != 61 || len(until) != len(entries)-60 {
		t.Errorf("%d since and %d until the 61st of %d", len(since), len(until), len(entries))
	}
	if past := all(t, h, "consumer="+consumer.String()+"&at="+fmt.Sprint(made[3].Sequence), 10); len(past) != 4 {
		t.Errorf("%d entries after the fourth", len(past))
	}
	one := all(t, h, "command="+entries[5].CommandID.String(), 10)
	if len(one) != 1 || one[0].Address != entries[5].Address {
		t.Errorf("by command: %+v", one)
	}
	touched := "consumer " + consumer.String()
	was, is := one[0].Before.(map[string]any)[touched], one[0].After.(map[string]any)[touched]
	if amount(was) != amount(entries[5].Before) || amount(is) != amount(entries[5].After) || amount(is) == 0 {
		t.Errorf("the command did %+v", one[0])
	}
}

// TestBadHistory: invalid parameters are a 400.
func TestBadHistory(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	h := history(t, l)
	id := commandstest.NewID().String()
	for _, query := range []string{
		"", "consumer=x", "consumer=" + id + "&provider=" + id, "consumer=" + id + "&limit=0",
		"consumer=" + id + "&limit=1001",
		"consumer=" + id + "&before=7", "consumer=" + id + "&before=0.0", "consumer=" + id + "&since=yesterday",
		"consumer=" + id + "&colour=red",
		"consumer=" + id + "&at=0", "consumer=" + id + "&at=99999", "project=", "consumer=" + id + "&consumer=" + id,
		"consumer=" + id + "&since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
	} {
		if _, status := read(t, h, query); status != http.StatusBadRequest {
			t.Errorf("%q: %d", query, status)
		}
	}
	if page, status := read(t, h, "consumer="+id); status != http.StatusOK || len(page.Entries) != 0 {
		t.Errorf("an unknown consumer: %d %+v", status, page)
	}
}
