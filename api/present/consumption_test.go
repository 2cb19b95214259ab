package present_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/projector"
)

// piece is an amount of something in an interval between two commits.
type piece struct {
	keys           map[string]string
	from, to       int64
	used, capacity int64
}

// pieces folds a log, and tells all of it, commit by commit, up to a time.
func pieces(t *rapid.T, views *projector.Projector, commits []*ledger.Commit, until int64) (list []piece) {
	state := ledger.NewState()
	for i, c := range commits {
		changes, err := state.Fold(c)
		if err == nil {
			err = views.Fold(c, changes)
		}
		ledgertest.OK(t, err)
		p := piece{from: timeOf(c), to: until}
		if i+1 < len(commits) {
			p.to = timeOf(commits[i+1])
		}
		add := func(used, capacity int64, keys ...string) {
			p.used, p.capacity, p.keys = used, capacity, make(map[string]string)
			for k := 0; k < len(keys); k += 2 {
				p.keys[keys[k]] = keys[k+1]
			}
			list = append(list, p)
		}
		state.Consumers(func(c *ledger.Consumer) bool {
			for _, a := range c.Allocations {
				add(a.Amount, 0, "project", c.Owner.Project, "user", c.Owner.User,
					"type", cmp.Or(c.Owner.Type, "unknown"), "class", fmt.Sprint(a.Class))
				add(a.Amount, 0, "provider", a.Provider.String(), "class", fmt.Sprint(a.Class))
			}
			return true
		})
		state.NodeAllocations(func(n *ledger.NodeAllocation) bool {
			if n.State == ledger.NodeAllocationActive {
				add(1, 0, "project", n.Owner, "user", "", "type", "NODE", "class", n.ResourceClass)
			}
			return true
		})
		state.Providers(func(p *ledger.Provider) bool {
			for _, inv := range p.Inventories {
				add(0, inv.Units(), "provider", p.UUID.String(), "class", fmt.Sprint(inv.Class))
			}
			return true
		})
	}
	return list
}

// timeOf is the time of a commit's last record.
func timeOf(c *ledger.Commit) int64 { return c.Records[len(c.Records)-1].Time }

// cut cuts a piece where an hour, day or month begins. Months begin where days do.
func cut(p piece, unit string, from, to int64) (parts []piece) {
	form := map[string]string{"hour": time.RFC3339, "day": time.DateOnly, "month": "2006-01"}[unit]
	step := int64(time.Hour)
	if form == "" {
		step = 1 << 62
	} else if unit != "hour" {
		step *= 24
	}
	for at := max(p.from, from); at < min(p.to, to); {
		part := p
		part.from, part.to = at, min(p.to, to, at-at%step+step)
		if part.keys = maps.Clone(p.keys); form != "" {
			at := time.Unix(0, at-at%step).UTC()
			part.keys[unit] = at.Format(form)
		}
		parts = append(parts, part)
		at = part.to
	}
	return parts
}

type sum struct{ used, capacity *big.Int }

// add adds a piece, for as long as it is.
func (s *sum) add(p piece) {
	length := big.NewInt(p.to - p.from)
	s.used.Add(s.used, new(big.Int).Mul(length, big.NewInt(p.used)))
	s.capacity.Add(s.capacity, new(big.Int).Mul(length, big.NewInt(p.capacity)))
}

// summed groups pieces as a query asks.
func summed(
	list []piece, q *wire.ConsumptionQuery, ids map[string]bool, from, to int64, name func(string) string,
) map[string]sum {
	sums, unit := make(map[string]sum), ""
	for _, by := range q.By {
		if by == "hour" || by == "day" || by == "month" {
			unit = by
		}
	}
	differs := func(asked, is string) bool { return asked != "" && asked != is }
	for _, p := range list {
		provider, isProvider := p.keys["provider"]
		if isProvider == q.Provider.IsNil() || isProvider && !ids[provider] || differs(q.Project, p.keys["project"]) ||
			differs(q.User, p.keys["user"]) || differs(q.Type, p.keys["type"]) || differs(q.Class, name(p.keys["class"])) {
			continue
		}
		for _, part := range cut(p, unit, from, to) {
			part.keys["class"] = name(part.keys["class"])
			var keys []string
			for _, by := range q.By {
				keys = append(keys, part.keys[by])
			}
			key := strings.Join(keys, "|")
			if sums[key].used == nil {
				sums[key] = sum{new(big.Int), new(big.Int)}
			}
			one := sums[key]
			one.add(part)
		}
	}
	return sums
}

// keysOf joins a row's keys in the order of by, and behind them those that no one asked for.
func keysOf(t *rapid.T, row *wire.ConsumptionRow, by []string) string {
	text, err := json.Marshal(row)
	all := make(map[string]string)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	ledgertest.OK(t, err)
	var keys []string
	for _, key := range by {
		value, has := all[key]
		if !has {
			value = "absent"
		}
		keys = append(keys, value)
		delete(all, key)
	}
	for key := range all {
		if !strings.HasSuffix(key, "_ns") && !strings.HasSuffix(key, "hours") {
			keys = append(keys, "unasked "+key)
		}
	}
	return strings.Join(keys, "|")
}

// randomQuery draws a query about a log, up to a time.
func randomQuery(t *rapid.T, commits []*ledger.Commit, last int64) *wire.ConsumptionQuery {
	near := rapid.SampledFrom(commits).Draw(t, "commit").Records[0].Time
	before := rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "before")
	from := near - before // it may be before the first commit
	length := rapid.SampledFrom([]time.Duration{
		5 * time.Hour, 5 * time.Hour, 50 * time.Hour, 70 * 24 * time.Hour, 1 << 62,
	}).Draw(t, "length")
	to := from + min(int64(length), last-from) - rapid.Int64Range(0, 5).Draw(t, "less")
	to = max(from, to, commits[0].Records[0].Time)
	moment := func(at int64) wire.Instant { return wire.Instant(time.Unix(0, at).UTC().Format(time.RFC3339Nano)) }
	q := &wire.ConsumptionQuery{From: moment(from), To: moment(to)}
	keys := []string{"project", "user", "type", "class"}
	if rapid.SampledFrom([]bool{true, true, false, false, false}).Draw(t, "of providers") {
		q.Provider = commandstest.SomeProvider(rapid.IntRange(0, 1).Draw(t, "provider"))
		q.Tree = rapid.Bool().Draw(t, "tree")
		keys = []string{"provider", "class"}
	} else {
		q.Project = rapid.SampledFrom([]string{"", "", "p", "q", "r"}).Draw(t, "project")
		q.User = rapid.SampledFrom([]string{"", "", "u", "v"}).Draw(t, "user")
		q.Type = rapid.SampledFrom([]string{"", "", "INSTANCE", "NODE"}).Draw(t, "type")
	}
	q.Class = rapid.SampledFrom([]string{"", "", "", "VCPU", "a", "CUSTOM_B"}).Draw(t, "class")
	keys = append(keys, rapid.SampledFrom([]string{"day", "month"}).Draw(t, "unit"))
	if to-from < int64(60*24*time.Hour) {
		keys[len(keys)-1] = "hour"
	}
	q.By = rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, len(keys), rapid.ID).Draw(t, "by")
	return q
}

// followed reads all pages.
func followed(
	t *rapid.T, views *projector.Projector, q *wire.ConsumptionQuery, now time.Time,
) (rows []wire.ConsumptionRow) {
	page := *q
	for {
		page.Limit = rapid.SampledFrom([]int{0, 1, 2, 5, 50}).Draw(t, "limit")
		answer, err := present.Consumption(t.Context(), views, &page, now)
		if err != nil {
			t.Fatalf("%+v: %v", page, err)
		}
		if page.Limit > 0 && len(answer.Rows) > page.Limit || answer.Next != "" && len(answer.Rows) == 0 {
			t.Fatalf("%+v: %d rows", page, len(answer.Rows))
		}
		rows = append(rows, answer.Rows...)
		if page.After = answer.Next; page.After == "" {
			return rows
		}
	}
}

// openViews opens read models that are removed after a run: they take much of the disk.
func openViews(t *rapid.T, in string) *projector.Projector {
	dir := commandstest.Must(os.MkdirTemp(in, ""))
	views := commandstest.Must(projector.Open(dir, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { ledgertest.OK(t, views.Close(), os.RemoveAll(dir)) })
	return views
}

// TestConsumptionByAnything: every grouping, of any interval, over any pages, is what a
// replay of the log counts.
func TestConsumptionByAnything(t *testing.T) {
	t.Parallel()
	kinds, dir := make(map[string]int), t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		commits := commandstest.RandomCommits(rt, 25)
		views := openViews(rt, dir)
		now := time.Unix(0, timeOf(commits[len(commits)-1])).Add(30 * time.Hour)
		list := pieces(rt, views, commits, now.UnixNano())
		for range 8 {
			check(rt, views, randomQuery(rt, commits, now.UnixNano()), list, now, kinds)
		}
		checkProjects(rt, views, list, now)
		q := &wire.ConsumptionQuery{From: "1"}
		for range 2 { // by a clock that is behind, and so that the next page can follow
			q.To = wire.Instant(commandstest.Must(present.Consumption(t.Context(), views, q, time.Unix(0, 0))).To)
		}
		answer, err := present.Consumption(t.Context(), views, &wire.ConsumptionQuery{From: "1"}, now)
		if err != nil || answer.To != now.UTC().Format(time.RFC3339Nano) || answer.Sequence != views.View().Sequence() {
			rt.Fatalf("until now, %s: %+v, %v", now, answer, err)
		}
	})
	for _, kind := range []string{
		"project", "user", "type", "class", "provider", "hour", "day", "month", "tree", "idle below 0",
	} {
		if kinds[kind] == 0 && !ledgertest.Raced {
			t.Errorf("no case of: %s", kind)
		}
	}
	t.Log(kinds)
}

// check compares the answers to one query.
func check(
	rt *rapid.T, views *projector.Projector, q *wire.ConsumptionQuery, list []piece, now time.Time, kinds map[string]int,
) {
	to := commandstest.Must(present.ViewAt(views, string(q.To), now))
	name := func(class string) string {
		var id ledger.ClassID
		if _, err := fmt.Sscan(class, &id); err != nil {
			return class // of whole nodes
		}
		name := commandstest.Must(to.ClassName(id))
		return name // empty: of a class that comes later
	}
	ids := map[string]bool{q.Provider.String(): true}
	if p, found, err := to.Provider(q.Provider); err == nil && found && q.Tree {
		err = to.Providers(func(other *ledger.Provider) bool {
			if other.Root == p.Root {
				ids[other.UUID.String()] = true
			}
			return true
		})
		ledgertest.OK(rt, err)
	}
	at := func(i wire.Instant) int64 {
		moment := commandstest.Must(time.Parse(time.RFC3339Nano, string(i)))
		return moment.UnixNano()
	}
	want := summed(list, q, ids, at(q.From), at(q.To), name)
	previous := ""
	for _, row := range followed(rt, views, q, now) {
		key := keysOf(rt, &row, q.By)
		if previous != "" && slices.Compare(strings.Split(previous, "|"), strings.Split(key, "|")) >= 0 {
			rt.Fatalf("%+v: row %s behind %s", q, key, previous)
		}
		previous = key
		expected := want[key]
		if expected.used == nil || row.AmountNS != expected.used.String() || row.Hours != hoursOf(expected.used) {
			rt.Fatalf("%+v: row %s: %s, want %v", q, key, row.AmountNS, expected.used)
		}
		if !q.Provider.IsNil() {
			idle := new(big.Int).Sub(expected.capacity, expected.used)
			if row.CapacityNS != expected.capacity.String() || row.CapacityHours != hoursOf(expected.capacity) ||
				row.IdleNS != idle.String() || row.IdleHours != hoursOf(idle) {
				rt.Fatalf("%+v: row %s: capacity %s, idle %s, want %v", q, key, row.CapacityNS, row.IdleNS, expected)
			}
			if idle.Sign() < 0 {
				kinds["idle below 0"]++
			}
		}
		if delete(want, key); len(ids) > 1 {
			kinds["tree"]++
		}
		for _, by := range q.By {
			kinds[by]++
		}
	}
	for key, left := range want {
		if left.used.Sign() != 0 || left.capacity.Sign() != 0 {
			rt.Fatalf("%+v: no row %s, want %v", q, key, left)
		}
	}
}

func hoursOf(ns *big.Int) string { return new(big.Rat).SetFrac(ns, big.NewInt(3600e9)).FloatString(9) }

// checkProjects compares the sums of all projects, which come in their order.
func checkProjects(rt *rapid.T, views *projector.Projector, list []piece, now time.Time) {
	at := commandstest.Must(views.MomentAt(now, now))
	number := func(class string) string { return class }
	want, got := make(map[string]string), make(map[string]string)
	for key, s := range summed(list, &wire.ConsumptionQuery{By: []string{"project", "class"}}, nil, 0, at.Time, number) {
		want[key] = s.used.String()
	}
	last := ""
	for p, err := range views.View().ProjectsConsumption(at) {
		key := fmt.Sprintf("%05d%s!", len(p.Project), p.Project)
		if err != nil || key <= last {
			rt.Fatalf("%q comes after %q, %v", key, last, err)
		}
		last = key
		for i, c := range p.Classes {
			if i > 0 && p.Classes[i-1].Class.Compare(c.Class) >= 0 {
				rt.Fatalf("classes of %s: %v", p.Project, p.Classes)
			}
			class := fmt.Sprint(c.Class.ID)
			if c.Class.Whole {
				class = c.Class.Nodes
			}
			got[p.Project+"|"+class] = c.UpTo.Big().String()
		}
	}
	isZero := func(_, amount string) bool { return amount == "0" }
	maps.DeleteFunc(want, isZero)
	maps.DeleteFunc(got, isZero)
	if !maps.Equal(got, want) {
		rt.Fatalf("projects have %v, want %v", got, want)
	}
}
