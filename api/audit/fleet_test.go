package audit_test

import (
	either "cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestFleet: the sums and cells are those that a walk through all providers
// gives, now and in the past.
func TestFleet(t *testing.T) {
	l, q := inMemory(t)
	var empty audit.Fleet
	q.get(t, 200, "/audit/fleet", &empty)
	if empty.Providers != 0 || len(empty.Cells.Roots) != 0 {
		t.Fatalf("%+v", empty)
	}
	roots := make([]ledger.UUID, 12)
	for i := range roots {
		roots[i] = l.Provider(t, fmt.Sprintf("host-%02d", i), commands.Inventory{Class: "VCPU", Total: 10})
		if i%3 == 0 {
			child := commandstest.NewID()
			l.Accept(t, &commands.CreateProvider{Provider: child, Name: fmt.Sprintf("numa-%02d", i), Parent: roots[i]})
			l.Accept(t, &commands.CreateInventory{Provider: child, Inventory: commands.Inventory{Class: "VCPU", Total: 5}})
			l.Accept(t, &commands.CreateInventory{Provider: child, Inventory: commands.Inventory{Class: "MEMORY_MB", Total: 7}})
		}
		if i > 0 {
			l.Accept(t, commandstest.Allocate(commandstest.NewID(), roots[i], "VCPU", int64(i%10)+boolTo(i%10 == 0)))
		}
	}
	past := l.Views.View().Sequence()
	l.Accept(t, &commands.UpdateInventory{Provider: roots[9], Inventory: commands.Inventory{Class: "VCPU", Total: 4}})
	for _, at := range []string{"", fmt.Sprint(past)} {
		var f audit.Fleet
		q.get(t, 200, "/audit/fleet?class=VCPU&order=fullest&at="+orNow(at, l), &f)
		var all audit.Providers
		q.get(t, 200, "/audit/providers?at="+orNow(at, l), &all)
		want := walked(all)
		for _, c := range f.Classes {
			if got := [3]int64{c.Total, c.Capacity, c.Used}; got != want[c.Class] || sum(c.Fullness[:]) != c.Trees {
				t.Errorf("%s at %q: %+v, not %v", c.Class, at, c, want[c.Class])
			}
		}
		if f.Providers != 16 || f.Trees != 12 || len(f.Classes) != 2 || len(f.Cells.Roots) != 12 || f.Cells.Trees != 12 {
			t.Errorf("%+v", f)
		}
		if over := len(f.Over); over != int(boolTo(at == "")) {
			t.Errorf("%d over capacity at %q", over, at)
		}
		fullness := func(i int) float64 { return float64(f.Cells.Used[i]) / float64(f.Cells.Capacity[i]) }
		for i := 1; i < len(f.Cells.Roots); i++ {
			if fullness(i) > fullness(i-1) {
				t.Errorf("at %q, cell %d is fuller than the one before", at, i)
			}
		}
	}
	var some audit.Fleet
	q.get(t, 200, "/audit/fleet?class=VCPU&order=name&limit=3", &some)
	if diff := cmp.Diff([]string{"host-00", "host-01", "host-02"}, some.Cells.Names); diff != "" || some.Cells.Trees != 12 {
		t.Error(diff)
	}
	for _, bad := range []string{"class=NO", "order=colour", "limit=0", "limit=20001", "colour=red", "at=99999"} {
		q.get(t, 400, "/audit/fleet?"+bad, nil)
	}
}

func boolTo(so bool) int64 {
	if so {
		return 1
	}
	return 0
}

func orNow(at string, l *commandstest.Ledger) string {
	if at == "" {
		return fmt.Sprint(l.Views.View().Sequence())
	}
	return at
}

func walked(all audit.Providers) map[string][3]int64 {
	sums := make(map[string][3]int64)
	for _, p := range all.Providers {
		for _, inv := range p.Inventories {
			sum := sums[inv.Class]
			sums[inv.Class] = [3]int64{sum[0] + inv.Total, sum[1] + inv.Capacity, sum[2] + inv.Used}
		}
	}
	return sums
}

func sum(list []int) (n int) {
	for _, i := range list {
		n += i
	}
	return n
}

// TestTrees: pages put together are all trees, in the order that is asked for.
func TestTrees(t *testing.T) {
	l, q := inMemory(t)
	random := rand.New(rand.NewPCG(1, 2))
	var names []string
	for i := range 25 {
		name := fmt.Sprintf("Rack-%02d", random.IntN(1000)*100+i)
		names = append(names, name)
		p := l.Provider(t, name, commands.Inventory{Class: "VCPU", Total: 100})
		l.Accept(t, &commands.CreateProvider{Provider: commandstest.NewID(), Name: "child of " + name, Parent: p})
		l.Accept(t, commandstest.Allocate(commandstest.NewID(), p, "VCPU", 1+random.Int64N(99)))
	}
	slices.Sort(names)
	pages := func(query string) (trees []audit.ShortTree) {
		for offset := 0; ; {
			var page audit.Trees
			q.get(t, 200, fmt.Sprintf("/audit/trees?limit=10&offset=%d%s", offset, query), &page)
			trees = append(trees, page.Trees...)
			if offset += 10; offset >= page.Count {
				return trees
			}
		}
	}
	all := pages("")
	var got []string
	for _, one := range all {
		got = append(got, one.Name)
		if one.Providers != 2 || one.Inventories[0].Capacity != 100 {
			t.Errorf("%+v", one)
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Error(diff)
	}
	for i, one := range pages("&order=emptiest&class=VCPU") {
		if i > 0 && one.Inventories[0].Used < all[0].Inventories[0].Used {
			t.Errorf("%d: %+v", i, one)
		}
		all[0] = one
	}
	if found := pages("&q=rack-" + names[3][5:]); len(found) != 1 || found[0].Name != names[3] {
		t.Errorf("%+v", found)
	}
	var tree audit.Tree
	q.get(t, 200, "/audit/tree?provider="+all[1].Root.String(), &tree)
	if len(tree.Providers) != 2 || tree.Root != all[1].Root || *tree.Providers[1].Parent != all[1].Root {
		t.Errorf("%+v", tree)
	}
	q.get(t, 404, "/audit/tree?provider="+commandstest.NewID().String(), nil)
	for _, bad := range []string{"order=fullest", "class=NO", "limit=1001", "offset=-1"} {
		q.get(t, 400, "/audit/trees?"+bad, nil)
	}
	q.get(t, 400, "/audit/tree", nil)
}

// TestSearch: a part of a name or the beginning of a uuid finds what exists, the
// most similar first, and no more than is asked for.
func TestSearch(t *testing.T) {
	l, q := inMemory(t)
	one := l.Provider(t, "alpha", commands.Inventory{Class: "VCPU", Total: 100})
	l.Provider(t, "alphabet", commands.Inventory{Class: "VCPU", Total: 100})
	l.Provider(t, "the Alpha", commands.Inventory{Class: "VCPU", Total: 100})
	consumer := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(consumer, one, "VCPU", 1))
	for text, want := range map[string][]string{
		"alpha": {"alpha", "alphabet", "the Alpha", "HW_ARCH_ALPHA"}, "ALPHAB": {"alphabet"}, "nothing": nil,
		consumer.String()[:9]: {consumer.String()}, consumer.String(): {consumer.String()}, one.String()[:13]: {"alpha"},
		"rojec": {"project"}, "TES": {"test"}, "USER": {"user", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"},
	} {
		var m audit.Matches
		q.get(t, 200, "/audit/search?q="+url.QueryEscape(text), &m)
		var got []string
		for _, match := range m.Matches {
			got = append(got, either.Or(match.Title, match.Name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	var m audit.Matches
	q.get(t, 200, "/audit/search?limit=2&q=alpha", &m)
	if len(m.Matches) != 2 || !m.Incomplete {
		t.Errorf("%+v", m)
	}
	q.get(t, 400, "/audit/search", nil)
	q.get(t, 400, "/audit/search?limit=201&q=a", nil)
}

// TestNames: providers that are gone keep their last names.
func TestNames(t *testing.T) {
	l, q := inMemory(t)
	here, gone := l.Provider(t, "here"), l.Provider(t, "gone")
	l.Accept(t, &commands.RenameProvider{Provider: gone, Name: "gone later"})
	l.Accept(t, &commands.DeleteProvider{Provider: gone})
	stranger := commandstest.NewID()
	var n audit.Names
	q.get(t, 200, fmt.Sprintf("/audit/names?ids=%s,%s,%s", here, gone, stranger), &n)
	want := map[string]string{here.String(): "here", gone.String(): "gone later"}
	if diff := cmp.Diff(want, n.Names); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "?ids=" + strings.Repeat(here.String()+",", 500) + here.String()} {
		q.get(t, 400, "/audit/names"+bad, nil)
	}
}

// TestOwnersAndTheirConsumers: what projects and users hold adds up to what their
// consumers hold.
func TestOwnersAndTheirConsumers(t *testing.T) {
	l, q := inMemory(t)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 1000})
	for i := range 30 {
		c := commandstest.Allocate(commandstest.NewID(), host, "VCPU", int64(i+1))
		c.Allocations[0].Project, c.Allocations[0].User = fmt.Sprint("p", i%3), fmt.Sprint("u", i%5)
		l.Accept(t, c)
	}
	var projects, one, user audit.Owners
	q.get(t, 200, "/audit/owners", &projects)
	if len(projects.Owners) != 3 || projects.Owners[0].Users != 5 || projects.Owners[0].Consumers != 10 {
		t.Errorf("%+v", projects)
	}
	q.get(t, 200, "/audit/owners?project=p1", &one)
	q.get(t, 200, "/audit/owners?user=u4", &user)
	if len(one.Owners) != 5 || len(user.Owners) != 3 || user.Owners[0].User != "u4" {
		t.Errorf("%+v %+v", one, user)
	}
	for query, owners := range map[string]audit.Owners{"project=p1": one, "user=u4": user} {
		var held, counted int64
		for after := ""; ; {
			var page audit.Consumers
			q.get(t, 200, "/audit/consumers?limit=3&"+query+after, &page)
			for _, c := range page.Consumers {
				held += c.Allocations[0].Amount
				counted++
			}
			if page.Next == "" {
				break
			}
			after = "&after=" + page.Next
		}
		for _, o := range owners.Owners {
			held, counted = held-o.Amounts["VCPU"], counted-o.Consumers
		}
		if held != 0 || counted != 0 {
			t.Errorf("%s: %d and %d are left", query, held, counted)
		}
		var s audit.Series
		q.get(t, 200, "/audit/series?points=2&"+query, &s)
		total := s.Points[len(s.Points)-1].Used["VCPU"]
		for _, o := range owners.Owners {
			total -= o.Amounts["VCPU"]
		}
		if total != 0 {
			t.Errorf("the series of %s differs by %d", query, total)
		}
	}
	var fleet audit.Series
	q.get(t, 200, "/audit/series?points=5&fleet=true", &fleet)
	if last := fleet.Points[len(fleet.Points)-1]; last.Used["VCPU"] != 465 || last.Capacity["VCPU"] != 1000 {
		t.Errorf("%+v", last)
	}
	for _, bad := range []string{"fleet=yes", "fleet=true&project=p", "user=u&project=p"} {
		q.get(t, 400, "/audit/series?"+bad, nil)
	}
}

// TestTimeline: any filters give what a look at all records gives, newest first,
// page by page.
func TestTimeline(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 31)
	q := ask(t, w.Ledger, nil)
	for range 120 {
		w.Submit(t, w.command())
	}
	var all []audit.TimelineItem
	read := func(query string) (list []audit.TimelineItem) {
		for before := ""; ; {
			var page audit.Timeline
			q.get(t, 200, "/audit/timeline?limit=7&"+query+before, &page)
			list = append(list, page.Entries...)
			if page.Next == "" {
				return list
			}
			before = "&before=" + page.Next
		}
	}
	all = read("")
	records, err := w.Views.View().Records()
	if err != nil || int64(len(all)) != records {
		t.Fatalf("%d of %d: %v", len(all), records, err)
	}
	for _, query := range []string{
		"command=AllocateForConsumers", "actor=unknown", "provider=" + w.providers[0].String(),
		"consumer=" + w.consumers[0].String(), "project=project&command=ReleaseConsumer",
		"provider=" + w.providers[0].String() + "&consumer=" + w.consumers[1].String(),
		"since=" + url.QueryEscape(all[60].Time) + "&until=" + url.QueryEscape(all[20].Time),
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		histories := historiesOf(t, q, values)
		var want, got []string
		for _, item := range all {
			if picked(t, item, values, histories) {
				want = append(want, item.Address)
			}
		}
		for _, item := range read(query) {
			got = append(got, item.Address)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for _, bad := range []string{"consumer=x", "since=noon", "before=x", "limit=101", "colour=red"} {
		q.get(t, 400, "/audit/timeline?"+bad, nil)
	}
}

// historiesOf are the addresses of the records of each thing that a query names.
func historiesOf(t *testing.T, q *questions, query url.Values) map[string][]string {
	t.Helper()
	histories := make(map[string][]string)
	for _, key := range []string{"provider", "consumer", "project"} {
		if !query.Has(key) {
			continue
		}
		var page audit.Page
		q.get(t, 200, fmt.Sprintf("/audit/history?limit=1000&%s=%s", key, query.Get(key)), &page)
		for _, entry := range page.Entries {
			histories[key] = append(histories[key], entry.Address)
		}
	}
	return histories
}

// picked looks a record up in the histories of what a query names.
func picked(t *testing.T, item audit.TimelineItem, query url.Values, histories map[string][]string) bool {
	t.Helper()
	for key := range query {
		value := query.Get(key)
		switch key {
		case "command":
			if item.Command != value {
				return false
			}
		case "actor":
			if item.Actor != value {
				return false
			}
		case "since", "until":
			at, bound := moment(t, item.Time), moment(t, value)
			if key == "since" && at.Before(bound) || key == "until" && at.After(bound) {
				return false
			}
		default:
			if !slices.Contains(histories[key], item.Address) {
				return false
			}
		}
	}
	return true
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestActivity: every accepted and rejected command is in the span of its time.
func TestActivity(t *testing.T) {
	l, q := inMemory(t)
	for i := range 20 {
		l.Accept(t, &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", i)})
	}
	var a audit.Activity
	q.get(t, 200, "/audit/activity?points=12", &a)
	records, err := l.Views.View().Records()
	if err != nil {
		t.Fatal(err)
	}
	for _, span := range a.Spans {
		records -= span.Records
	}
	if len(a.Spans) != 12 || records != 0 || a.Kept {
		t.Errorf("%+v, %d are missing", a, records)
	}
	for _, bad := range []string{"points=0", "points=501", "since=noon"} {
		q.get(t, 400, "/audit/activity?"+bad, nil)
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
	var a audit.Activity
	ask(t, l, unreadable{ledger.ErrUnavailable}).get(t, 200, "/audit/activity", &a)
	if !a.Kept || !a.Incomplete {
		t.Errorf("%+v", a)
	}
	ask(t, l, unreadable{rejected.ErrDamaged}).get(t, 500, "/audit/activity", nil)
}

// TestReservationsOfNow: those that end first come first, with their owners.
func TestReservationsOfNow(t *testing.T) {
	l, q := inMemory(t)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 100})
	for i := range 5 {
		c := commandstest.Allocate(commandstest.NewID(), host, "VCPU", int64(i+1))
		l.Accept(t, &commands.Reserve{Allocations: c.Allocations, Seconds: float64(1000 - 100*i)})
	}
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), host, "VCPU", 9))
	var r audit.Reservations
	q.get(t, 200, "/audit/reservations?limit=4", &r)
	if len(r.Reservations) != 4 || !r.Incomplete || r.Reservations[0].Allocations[0].Amount != 5 || r.Reservations[0].Project != "project" {
		t.Errorf("%+v", r)
	}
	q.get(t, 400, "/audit/reservations?limit=0", nil)
}
