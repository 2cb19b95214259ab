package audit_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestFleet: the sums and cells are those that a walk through all providers
// gives, now and in the past.
func TestFleet(t *testing.T) {
	l, q := inMemory(t)
	if empty := told[audit.Fleet](t, q, "/audit/fleet"); empty.Providers != 0 || len(empty.Cells.Roots) != 0 {
		t.Fatalf("%+v", empty)
	}
	roots := make([]ledger.UUID, 12)
	for i := range roots {
		roots[i] = l.Provider(t, fmt.Sprintf("host-%02d", i), commands.Inventory{Class: "VCPU", Total: 10})
		if i%3 == 0 {
			child := l.Provider(t, fmt.Sprintf("numa-%02d", i),
				commands.Inventory{Class: "VCPU", Total: 5}, commands.Inventory{Class: "MEMORY_MB", Total: 7})
			l.Accept(t, &commands.ReparentProvider{Provider: child, Parent: roots[i]})
		}
		if i > 0 {
			l.Accept(t, holding("project", roots[i], max(1, int64(i%10))))
		}
	}
	past := l.Views.View().Sequence()
	l.Accept(t, &commands.UpdateInventory{Provider: roots[9], Inventory: commands.Inventory{Class: "VCPU", Total: 4}})
	for at, over := range map[uint64]int{past: 0, l.Views.View().Sequence(): 1} {
		f := told[audit.Fleet](t, q, fmt.Sprint("/audit/fleet?class=VCPU&order=fullest&at=", at))
		walked := make(map[string]audit.FleetClass)
		for _, p := range told[audit.Providers](t, q, fmt.Sprint("/audit/providers?at=", at)).Providers {
			for _, inv := range p.Inventories {
				sum := walked[inv.Class]
				sum.Total, sum.Capacity, sum.Used = sum.Total+inv.Total, sum.Capacity+inv.Capacity, sum.Used+inv.Used
				walked[inv.Class] = sum
			}
		}
		for _, c := range f.Classes {
			trees, want := 0, walked[c.Class]
			for _, n := range c.Fullness {
				trees += n
			}
			if c.Total != want.Total || c.Capacity != want.Capacity || c.Used != want.Used || trees != c.Trees {
				t.Errorf("%s at %d: %+v, not %+v", c.Class, at, c, want)
			}
		}
		counts := []int{f.Providers, f.Trees, len(f.Classes), len(f.Cells.Roots), f.Cells.Trees, len(f.Over)}
		if !slices.Equal(counts, []int{16, 12, 2, 12, 12, over}) {
			t.Errorf("at %d: %v", at, counts)
		}
		fullness := func(i int) float64 { return float64(f.Cells.Used[i]) / float64(f.Cells.Capacity[i]) }
		for i := 1; i < len(f.Cells.Roots); i++ {
			if fullness(i) > fullness(i-1) {
				t.Errorf("at %d, cell %d is fuller than the one before", at, i)
			}
		}
	}
	some := told[audit.Fleet](t, q, "/audit/fleet?class=VCPU&order=name&limit=3").Cells
	if !slices.Equal(some.Names, []string{"host-00", "host-01", "host-02"}) || some.Trees != 12 {
		t.Errorf("%+v", some)
	}
}

// TestTimeline: any filters give what a look at all records gives, newest first,
// page by page.
func TestTimeline(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 31)
	q := ask(w.Ledger, nil)
	for range 120 {
		w.Submit(t, w.command())
	}
	read := func(query string) []audit.TimelineItem {
		return pages(t, q, "/audit/timeline?limit=7&"+query, "before",
			func(page audit.Timeline) ([]audit.TimelineItem, string) { return page.Entries, page.Next })
	}
	all := read("")
	records, err := w.Views.View().Records()
	if err != nil || int64(len(all)) != records {
		t.Fatalf("%d of %d: %v", len(all), records, err)
	}
	type pick = func(audit.TimelineItem) bool
	commanded := func(name string) pick { return func(item audit.TimelineItem) bool { return item.Command == name } }
	touching := func(subject string) pick { // by the history of what it names
		history := told[audit.Page](t, q, "/audit/history?limit=1000&"+subject).Entries
		return func(item audit.TimelineItem) bool {
			return slices.ContainsFunc(history, func(e wire.HistoryEntry) bool { return e.Address == item.Address })
		}
	}
	between := func(since, until string) pick {
		return func(item audit.TimelineItem) bool {
			at := moment(t, item.Time)
			return !at.Before(moment(t, since)) && !at.After(moment(t, until))
		}
	}
	provider := "provider=" + w.providers[0].String()
	one, other := "consumer="+w.consumers[0].String(), "consumer="+w.consumers[1].String()
	since, until := all[60].Time, all[20].Time
	for query, picks := range map[string][]pick{
		"command=AllocateForConsumers": {commanded("AllocateForConsumers")},
		"actor=unknown":                {func(item audit.TimelineItem) bool { return item.Actor == "unknown" }},
		provider:                       {touching(provider)},
		one:                            {touching(one)},
		"project=project&command=ReleaseConsumer":                              {touching("project=project"), commanded("ReleaseConsumer")},
		provider + "&" + other:                                                 {touching(provider), touching(other)},
		"since=" + url.QueryEscape(since) + "&until=" + url.QueryEscape(until): {between(since, until)},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(item audit.TimelineItem) bool {
			return slices.ContainsFunc(picks, func(picked pick) bool { return !picked(item) })
		})
		if diff := cmp.Diff(addresses(want), addresses(read(query))); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

func addresses(items []audit.TimelineItem) (list []string) {
	for _, item := range items {
		list = append(list, item.Address)
	}
	return list
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	ledgertest.OK(t, err)
	return at
}

// TestActivity: every accepted and rejected command is in the span of its time.
func TestActivity(t *testing.T) {
	l, q := inMemory(t)
	for i := range 20 {
		l.Accept(t, &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", i)})
	}
	a := told[audit.Activity](t, q, "/audit/activity?points=12")
	records, err := l.Views.View().Records()
	for _, span := range a.Spans {
		records -= span.Records
	}
	if err != nil || len(a.Spans) != 12 || records != 0 || a.Kept {
		t.Errorf("%+v, %d are missing, %v", a, records, err)
	}
}

// unreadable is a store of rejected commands that fails.
type unreadable struct{ err error }

// Append implements rejected.Store.
func (u unreadable) Append(context.Context, []byte) error { return u.err }

// Newest implements rejected.Store.
func (u unreadable) Newest(context.Context, func([]byte) (bool, error)) error { return u.err }

// TestActivityWithoutRejected: while the store of rejected commands is out of reach,
// accepted ones are told alone, and the answer says so. A damaged one is an error.
func TestActivityWithoutRejected(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	away := ask(l, unreadable{ledger.ErrUnavailable})
	if a := told[audit.Activity](t, away, "/audit/activity"); !a.Kept || !a.Incomplete {
		t.Errorf("%+v", a)
	}
	ask(l, unreadable{rejected.ErrDamaged}).refused(t, 500, "/audit/activity", "")
}
