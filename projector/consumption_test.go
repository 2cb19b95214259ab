package projector_test

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
)

// amounts are what there is at a moment, by what it is.
type amounts map[string]int64

// counted counts what a State shows, consumer by consumer and node by node.
func counted(s *ledger.State) amounts {
	a := make(amounts)
	s.Consumers(func(c *ledger.Consumer) bool {
		for _, held := range c.Allocations {
			a[fmt.Sprint("held ", *c.Owner, projector.ConsumedClass{ID: held.Class})] += held.Amount
			a[fmt.Sprint("used ", held.Provider, held.Class)] += held.Amount
		}
		return true
	})
	s.NodeAllocations(func(n *ledger.NodeAllocation) bool {
		if n.State == ledger.NodeAllocationActive && !n.Node.IsNil() {
			owner := ledger.Owner{Project: n.Owner, Type: projector.WholeNodes}
			a[fmt.Sprint("held ", owner, projector.ConsumedClass{Nodes: n.ResourceClass, Whole: true})]++
		}
		return true
	})
	s.Providers(func(p *ledger.Provider) bool {
		for _, inv := range p.Inventories {
			a[fmt.Sprint("capacity ", p.UUID, inv.Class)] += inv.Units()
		}
		return true
	})
	return a
}

// replayed is a log replayed: what there was after each commit, and when it was decided.
type replayed struct {
	times []int64
	after []amounts
	ids   map[ledger.UUID]bool // of providers
}

func replay(t *rapid.T, commits []*ledger.Commit) *replayed {
	r := &replayed{ids: make(map[ledger.UUID]bool)}
	state := ledger.NewState()
	for _, c := range commits {
		if _, err := state.Fold(c); err != nil {
			t.Fatal(err)
		}
		r.times = append(r.times, c.Records[len(c.Records)-1].Time)
		r.after = append(r.after, counted(state))
		state.Providers(func(p *ledger.Provider) bool { r.ids[p.UUID] = true; return true })
	}
	return r
}

// between sums amounts times nanoseconds of an interval, commit by commit.
func (r *replayed) between(from, to int64) map[string]*big.Int {
	sums := make(map[string]*big.Int)
	for i, at := range r.times {
		until := to
		if i+1 < len(r.times) {
			until = min(until, r.times[i+1])
		}
		for what, amount := range r.after[i] {
			if length := until - max(from, at); length > 0 {
				if sums[what] == nil {
					sums[what] = new(big.Int)
				}
				sums[what].Add(sums[what], new(big.Int).Mul(big.NewInt(amount), big.NewInt(length)))
			}
		}
	}
	return sums
}

func texts(sums map[string]*big.Int) map[string]string {
	list := make(map[string]string)
	for what, sum := range sums {
		if sum.Sign() != 0 {
			list[what] = sum.String()
		}
	}
	return list
}

// asked asks read models for what there was between each two of some moments.
func asked(view projector.View, ids map[ledger.UUID]bool, moments []projector.Moment) ([]map[string]string, error) {
	list := make([]map[string]*big.Int, len(moments)-1)
	for i := range list {
		list[i] = make(map[string]*big.Int)
	}
	add := func(what string, upTo []ledger.Integral) {
		for i := range list {
			if list[i][what] != nil {
				panic(what + " is there twice")
			}
			list[i][what] = upTo[i+1].Minus(upTo[i]).Big()
		}
	}
	err := view.Consumption("", "", moments, func(c *projector.Consumed) bool {
		add(fmt.Sprint("held ", c.Owner, c.Class), c.UpTo)
		return true
	})
	for id := range ids {
		if err == nil {
			err = view.ProviderConsumption(id, moments, func(c *projector.ProviderConsumption) bool {
				add(fmt.Sprint("used ", id, c.Class), c.Used)
				add(fmt.Sprint("capacity ", id, c.Class), c.Capacity)
				return true
			})
		}
	}
	answers := make([]map[string]string, len(list))
	for i := range list {
		answers[i] = texts(list[i])
	}
	return answers, err
}

// differs compares the read models' answers about random intervals with the replay's.
func (r *replayed) differs(t *rapid.T, p *projector.Projector) string {
	first, last := r.times[0], r.times[len(r.times)-1]
	now := time.Unix(0, last).Add(time.Hour)
	var moments []projector.Moment
	for range rapid.IntRange(2, 6).Draw(t, "moments") {
		if rapid.Bool().Draw(t, "of a commit") {
			view, err := p.ViewAt(rapid.Uint64Range(1, uint64(len(r.times))).Draw(t, "sequence"))
			if err != nil {
				t.Fatal(err)
			}
			moment, err := view.Moment()
			if err != nil {
				t.Fatal(err)
			}
			moments = append(moments, moment)
			continue
		}
		at := time.Unix(0, rapid.Int64Range(first, now.UnixNano()).Draw(t, "time"))
		moment, err := p.MomentAt(at, now)
		if err != nil {
			t.Fatal(err)
		}
		moments = append(moments, moment)
	}
	slices.SortFunc(moments, func(a, b projector.Moment) int { return int(a.Sequence) - int(b.Sequence) })
	slices.SortStableFunc(moments, func(a, b projector.Moment) int { return int(a.Time - b.Time) })
	got, err := asked(p.View(), r.ids, moments)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		from, to := moments[i].Time, moments[i+1].Time
		want := texts(r.between(from, to))
		if !maps.Equal(got[i], want) {
			return fmt.Sprintf("from %d to %d: %v, want %v", from, to, got[i], want)
		}
	}
	return r.projectsDiffer(t, p.View(), moments[len(moments)-1])
}

// projectsDiffer compares the sums of all projects.
func (r *replayed) projectsDiffer(t *rapid.T, view projector.View, at projector.Moment) string {
	want := make(map[string]*big.Int)
	for what, sum := range r.between(0, at.Time) {
		owner, held := strings.CutPrefix(what, "held {")
		if !held {
			continue
		}
		project, _, _ := strings.Cut(owner, " ")
		key := project + owner[strings.Index(owner, "}"):]
		if want[key] == nil {
			want[key] = new(big.Int)
		}
		want[key].Add(want[key], sum)
	}
	got, last := make(map[string]*big.Int), ""
	for p, err := range view.ProjectsConsumption(at) {
		if err != nil {
			t.Fatal(err)
		}
		if key := fmt.Sprintf("%05d%s!", len(p.Project), p.Project); key <= last {
			t.Fatalf("%q comes after %q", key, last)
		} else {
			last = key
		}
		for i, c := range p.Classes {
			if i > 0 && p.Classes[i-1].Class.Compare(c.Class) >= 0 {
				t.Fatalf("classes of %s: %v", p.Project, p.Classes)
			}
			got[p.Project+"} "+fmt.Sprint(c.Class)] = c.UpTo.Big()
		}
	}
	if got, want := texts(got), texts(want); !maps.Equal(got, want) {
		return fmt.Sprintf("projects up to %d: %v, want %v", at.Time, got, want)
	}
	return ""
}

// kindsSeen counts the cases that random logs should have.
func (r *replayed) kindsSeen(kinds map[string]int) {
	gone := make(map[string]bool)
	for i, now := range r.after {
		for what, amount := range now {
			kind, of, _ := strings.Cut(what, " ")
			if kind == "held" && strings.Contains(of, projector.WholeNodes) {
				kinds["whole nodes"]++
			}
			if kind == "used" && amount > now["capacity "+of] {
				kinds["over capacity"]++
			}
			if gone[what] {
				kinds[kind+" again"]++
			}
		}
		if i == 0 {
			continue
		}
		for what := range r.after[i-1] {
			if _, there := now[what]; !there {
				gone[what] = true
			}
		}
		if r.times[i] == r.times[i-1] {
			kinds["no time between"]++
		}
	}
}

// eachItsOwn makes folders that are removed after a run: read models take much of the disk.
func eachItsOwn(t *testing.T) func(*rapid.T) string {
	in := t.TempDir()
	return func(rt *rapid.T) string {
		dir, err := os.MkdirTemp(in, "")
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
}

// TestConsumptionOfAnyLog: what the read models say of any interval is what a replay of the
// log counts, also after a start, and with
// nothing kept in memory.
func TestConsumptionOfAnyLog(t *testing.T) {
	t.Parallel()
	kinds, folders := make(map[string]int), eachItsOwn(t)
	rapid.Check(t, func(rt *rapid.T) {
		commits := commandstest.RandomCommits(rt, 25)
		want := replay(rt, commits)
		want.kindsSeen(kinds)
		dir, other := folders(rt), folders(rt)
		p, whole := openedIn(t, dir), openedIn(t, other)
		rt.Cleanup(func() { _ = errors.Join(p.Close(), whole.Close()) }) // else removed files take the disk
		state := ledger.NewState()
		restart := rapid.IntRange(0, len(commits)-1).Draw(rt, "restart")
		for i, c := range commits {
			changes, err := state.Fold(c)
			if err == nil {
				err = p.Fold(c, changes)
			}
			if err == nil {
				err = whole.Fold(c, changes)
			}
			if err != nil {
				rt.Fatal(err)
			}
			if i == restart {
				if err := p.Close(); err != nil {
					rt.Fatal(err)
				}
				p = openedIn(t, dir)
			}
			for range rapid.IntRange(0, 2).Draw(rt, "age") {
				p.Age()
			}
		}
		if difference := want.differs(rt, p); difference != "" {
			rt.Fatal(difference)
		}
		if difference := want.differs(rt, whole); difference != "" {
			rt.Fatal(difference)
		}
		one, err := p.Digest()
		if other, otherErr := whole.Digest(); err != nil || otherErr != nil || one != other {
			rt.Fatalf("digests %s, %s, %v, %v", one, other, err, otherErr)
		}
	})
	for _, kind := range []string{
		"whole nodes", "over capacity", "held again", "used again", "capacity again", "no time between",
	} {
		if kinds[kind] == 0 && !ledgertest.Raced {
			t.Errorf("no log had a case of: %s", kind)
		}
	}
	t.Log(kinds)
}

// TestConsumptionOfAnotherLog: the comparison tells a log whose last changes came a
// nanosecond later.
func TestConsumptionOfAnotherLog(t *testing.T) {
	t.Parallel()
	found, folders := 0, eachItsOwn(t)
	rapid.Check(t, func(rt *rapid.T) {
		commits := commandstest.RandomCommits(rt, 10)
		want := replay(rt, commits)
		p := openedIn(t, folders(rt))
		rt.Cleanup(func() { _ = p.Close() })
		state := ledger.NewState()
		for i, c := range commits {
			changes, err := state.Fold(c)
			if err != nil {
				rt.Fatal(err)
			}
			later := *c
			if i >= len(commits)/2 { // not all of them change an amount
				later.Records = slices.Clone(c.Records)
				for n := range later.Records {
					later.Records[n].Time++
				}
			}
			if err := p.Fold(&later, changes); err != nil {
				rt.Fatal(err)
			}
		}
		if want.differs(rt, p) != "" {
			found++
		}
	})
	if found == 0 && !ledgertest.Raced {
		t.Error("no difference was found")
	}
}
