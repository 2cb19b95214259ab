package demand_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func domain(n byte) ledger.UUID { return ledger.UUID{15: n} }

// TestFit compares what is found in small topologies with all ways to give hosts members.
func TestFit(t *testing.T) {
	t.Parallel()
	found, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		top, hosts := randomTopology(t)
		g := randomGang(t, top.Levels)
		members := max(1, g.Slices) * rapid.IntRange(2, 4).Draw(t, "members in slices")
		if r := cmp.Or(top.Check(), g.Check(top.Levels, members)); r != nil {
			t.Fatal(r)
		}
		w := &ways{top: top, hosts: hosts, gang: g, best: map[int]int{}}
		w.all(nil, members)
		within, shares, ok := g.Fit(top, hosts, members)
		if ok != (len(w.best) > 0) {
			t.Fatalf("found %v, and there are ways %v", ok, w.best)
		}
		if !ok {
			none++
			return
		}
		found++
		level := slices.Index(top.Levels, top.Members[within.String()].Level)
		over, valid := w.within(within, shares)
		for _, n := range shares {
			members -= n
		}
		if !valid || members != 0 {
			t.Fatalf("%v of %v do not stand in %s", shares, hosts, within)
		}
		for other, most := range w.best {
			if other > level || other == level && most != over {
				t.Fatalf("level %d, over %d: there are ways %v", level, over, w.best)
			}
		}
	})
	t.Logf("%d were found, and %d were impossible", found, none)
	if found == 0 || none == 0 {
		t.Error("one kind never came")
	}
}

// randomGang is one that Check accepts for members in whole slices, if for two or more.
func randomGang(t *rapid.T, levels []string) *demand.TopologyGang {
	g := &demand.TopologyGang{Within: demand.Smallest, Slices: rapid.IntRange(0, 2).Draw(t, "slices")}
	at := rapid.IntRange(-1, len(levels)-1).Draw(t, "within")
	if at >= 0 {
		g.Within = levels[at]
	}
	if narrower := levels[max(at, 0)+1:]; len(narrower) > 0 && rapid.Bool().Draw(t, "spread") {
		g.Spread = rapid.SampledFrom(narrower).Draw(t, "over")
	}
	return g
}

func randomTopology(t *rapid.T) (*demand.Topology, []demand.Host) {
	top := &demand.Topology{
		Levels:  []string{"site", "block", "rack"}[:rapid.IntRange(1, 3).Draw(t, "levels")],
		Members: map[string]demand.TopologyMember{},
	}
	var wider, ids []ledger.UUID
	for i, level := range top.Levels {
		var here []ledger.UUID
		for n := range rapid.IntRange(1, 3).Draw(t, level) {
			one := demand.TopologyMember{Level: level, Name: fmt.Sprint(n)}
			if i > 0 {
				parent := rapid.SampledFrom(wider).Draw(t, "parent")
				one.Parent = &parent
			}
			id := domain(byte(16*rapid.IntRange(1, 15).Draw(t, "first") + len(ids)))
			top.Members[id.String()], here, ids = one, append(here, id), append(ids, id)
		}
		wider = here
	}
	var hosts []demand.Host
	for range rapid.IntRange(0, 5).Draw(t, "hosts") {
		hosts = append(hosts, demand.Host{
			Domain: rapid.SampledFrom(append(ids, domain(255))).Draw(t, "domain"), Room: rapid.IntRange(0, 4).Draw(t, "room"),
		})
	}
	return top, hosts
}

// ways tries all ways to give hosts members: best is, by the level of a domain that holds them,
// over how many they can spread.
type ways struct {
	top   *demand.Topology
	hosts []demand.Host
	gang  *demand.TopologyGang
	best  map[int]int
}

func (w *ways) all(shares []int, left int) {
	if len(shares) < len(w.hosts) {
		for n := 0; n <= min(left, w.hosts[len(shares)].Room); n += max(1, w.gang.Slices) {
			w.all(append(slices.Clone(shares), n), left-n)
		}
		return
	}
	if left > 0 {
		return
	}
	for text, one := range w.top.Members {
		id, _ := ledger.ParseUUID(text)
		if over, valid := w.within(id, shares); valid && (w.gang.Within == one.Level || w.gang.Within == demand.Smallest) {
			level := slices.Index(w.top.Levels, one.Level)
			w.best[level] = max(w.best[level], over)
		}
	}
}

// within reports whether a domain holds all members as they should stand, and over how many domains.
func (w *ways) within(id ledger.UUID, shares []int) (over int, valid bool) {
	parts := map[ledger.UUID]bool{}
	for i, n := range shares {
		if n == 0 {
			continue
		}
		above := w.above(w.hosts[i].Domain)
		at := slices.IndexFunc(above, func(one ledger.UUID) bool {
			return w.top.Members[one.String()].Level == w.gang.Spread
		})
		sliced := n <= w.hosts[i].Room && n%max(1, w.gang.Slices) == 0
		if !slices.Contains(above, id) || !sliced || w.gang.Spread != "" && at < 0 {
			return 0, false
		}
		if at >= 0 {
			parts[above[at]] = true
		}
	}
	return len(parts), w.gang.Spread == "" || len(parts) >= 2
}

// above are a domain and all that it is in.
func (w *ways) above(id ledger.UUID) (list []ledger.UUID) {
	for one, member := w.top.Members[id.String()]; member; one, member = w.top.Members[id.String()] {
		list = append(list, id)
		if one.Parent == nil {
			break
		}
		id = *one.Parent
	}
	return list
}

// TestDomainOf: of several domains a host is in the narrowest, and of several of those in the
// first.
func TestDomainOf(t *testing.T) {
	t.Parallel()
	parent := domain(1)
	top := &demand.Topology{Levels: []string{"block", "rack"}, Members: map[string]demand.TopologyMember{
		domain(1).String(): {Level: "block", Name: "b"}, domain(2).String(): {Level: "rack", Name: "r", Parent: &parent},
		domain(3).String(): {Level: "rack", Name: "s", Parent: &parent},
	}}
	if got, is := top.DomainOf([]ledger.UUID{domain(1), domain(9), domain(3), domain(2)}); !is || got != domain(2) {
		t.Errorf("it is in %s: %v", got, is)
	}
	if got, is := top.DomainOf([]ledger.UUID{domain(9)}); is {
		t.Errorf("it is in %s", got)
	}
}
