package commands_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func aggregatesAsKept(s *ledger.State) map[ledger.AggregateKey]int64 {
	kept := map[ledger.AggregateKey]int64{}
	s.AggregateLimits(func(l *ledger.AggregateLimit) bool {
		kept[l.AggregateKey] = l.Used
		return true
	})
	return kept
}

// aggregatesAsCounted counts what is held in each aggregate that has a limit.
func aggregatesAsCounted(s *ledger.State) map[ledger.AggregateKey]int64 {
	all, counted := heldInAggregates(s), map[ledger.AggregateKey]int64{}
	s.AggregateLimits(func(l *ledger.AggregateLimit) bool {
		counted[l.AggregateKey] = all[l.AggregateKey]
		return true
	})
	return counted
}

// heldInAggregates counts from consumers what is held in all aggregates, limited or
// not: on their providers, and on those whose root is one.
func heldInAggregates(s *ledger.State) map[ledger.AggregateKey]int64 {
	counted := map[ledger.AggregateKey]int64{}
	s.Consumers(func(c *ledger.Consumer) bool {
		for _, a := range c.Allocations {
			p, _ := s.Provider(a.Provider)
			root := p
			for !root.Parent.IsNil() {
				root, _ = s.Provider(root.Parent)
			}
			all := slices.SortedFunc(slices.Values(slices.Concat(p.Aggregates, root.Aggregates)), ledger.UUID.Compare)
			for _, id := range slices.Compact(all) {
				counted[ledger.AggregateKey{Aggregate: id, Class: a.Class}] += a.Amount
			}
		}
		return true
	})
	return counted
}

// regrouping are the commands after which an aggregate may have more than before,
// because what is held already comes to count for it.
var regrouping = map[string]bool{
	"ReplaceProviderAggregates": true, "ReparentProvider": true, "UpdateProvider": true, "Batch": true,
	"SetNodeProviders": true, "ExpireReservation": true, "BeginTerm": true, "SetConsumptionRoot": true,
}

// TestLimitsHold: whatever command is carried out, what is held in an aggregate does
// not grow beyond its limit, and no project's usage grows beyond a limit, its own or one
// above it, as it was before or is after it. A command that is taken back leaves the
// counts as they were.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	grown, refused := map[string]int{}, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := otherWorld(t, commandstest.SomeThings()...)
		inAggregates(rt, w)
		most := rapid.Int64Range(1, 6).Draw(rt, "most")
		w.accept(&commands.PlaceProject{Project: "p", Parent: "q"}, &commands.SetLimit{Class: vcpu, Most: &most})
		for range 40 {
			c := rapid.SampledFrom([]func(*rapid.T) commands.Command{
				commandstest.RandomCommand, commandstest.RandomProviderCommand, randomAllocate,
				func(rt *rapid.T) commands.Command {
					claim := commandstest.RandomClaim(rt)
					claim.Prefer, claim.Gang = nil, nil // most with one find nothing
					return claim
				},
			}).Draw(rt, "command")(rt)
			name := commands.NameOf(c)
			checkTakenBack(rt, w.State(), c)
			inRacks, ofProjects, limits := heldInAggregates(w.State()), projectsAsCounted(w.State()), limitsNow(w.State())
			_, rejection := w.carry(c)
			if rejection != nil && rejection.Code == demand.CodeOverLimit {
				refused[fmt.Sprint(name, rejection.Facts.Aggregate != nil)]++
			}
			checkIndexes(rt, w.State())
			after := heldInAggregates(w.State())
			w.State().AggregateLimits(func(l *ledger.AggregateLimit) bool {
				if used := after[l.AggregateKey]; used > inRacks[l.AggregateKey] {
					grown[fmt.Sprint(name, true)]++
					if used > l.Most && !regrouping[name] {
						rt.Fatalf("%s lets %v grow to %d, and its limit is %d", name, l.AggregateKey, used, l.Most)
					}
				}
				return true
			})
			for key, used := range projectsAsCounted(w.State()) {
				if used <= ofProjects[key] || len(ofProjects) == 0 {
					continue
				}
				grown[fmt.Sprint(name, false)]++
				if most, limited := limits[key]; limited && used > most && !recording[name] {
					rt.Fatalf("%s lets %s grow to %d, and its limit is %d", name, key, used, most)
				}
			}
		}
	})
	t.Logf("grown by %v, refused %v", grown, refused)
	for _, name := range []string{"AllocateForConsumers", "Claim"} {
		for _, ofAggregate := range []bool{false, true} {
			key := fmt.Sprint(name, ofAggregate)
			if !ledgertest.Raced && (grown[key] == 0 || refused[key] == 0) {
				t.Errorf("%s: grown by %v, refused %v", key, grown, refused)
			}
		}
	}
}

// recording are the commands that say what is so already, whatever the limits.
var recording = map[string]bool{
	"PlaceProject":     true, // an operator says where a project is
	"Batch":            true,
	"SetNodeProviders": true, "ExpireReservation": true, "BeginTerm": true, "SetConsumptionRoot": true,
}

// limitsNow is the limit of everything that any project holds, by its name in
// projectsAsCounted.
func limitsNow(s *ledger.State) map[string]int64 {
	limits := map[string]int64{}
	for _, project := range []string{"p", "q", "r"} {
		for _, class := range s.Classes().All() {
			if most, limited := s.LimitOf(ledger.LimitKey{Project: project, Class: class.ID}); limited {
				limits[nameOfClass(project, class.ID)] = most
			}
		}
		for _, kind := range []string{"INSTANCE", "MIGRATION", ledger.UnknownType} {
			if most, limited := s.LimitOf(ledger.LimitKey{Project: project, Type: kind}); limited {
				limits[nameOfType(project, kind)] = most
			}
		}
	}
	return limits
}

// randomAllocate draws an allocation of VCPU, which may fit.
func randomAllocate(rt *rapid.T) commands.Command {
	c := allocations(allocate(
		ledgertest.ID(2, byte(rapid.IntRange(1, 3).Draw(rt, "consumer"))), ledgertest.ID(1, byte(rapid.IntRange(1, 4).Draw(rt, "provider"))),
		vcpu, rapid.Int64Range(1, 4).Draw(rt, "amount"),
	))
	c.Allocations[0].AnyGeneration = true
	return c
}

// inAggregates puts every provider into some aggregates, and limits a class there.
func inAggregates(rt *rapid.T, w *world) {
	var ids []ledger.UUID
	w.State().Providers(func(p *ledger.Provider) bool { ids = append(ids, p.UUID); return true })
	for _, id := range ids {
		in := rapid.SampledFrom([][]ledger.UUID{nil, {aggregate}, {aggregate2, aggregate}}).Draw(rt, "in")
		w.accept(&commands.ReplaceProviderAggregates{Provider: id, Aggregates: in})
	}
	most := rapid.Int64Range(0, 6).Draw(rt, "most")
	w.accept(&commands.SetLimit{Aggregate: aggregate, Class: vcpu, Most: &most})
}

// checkTakenBack carries a command out on a copy, takes it back, and compares what is
// counted, for which no digest vouches.
func checkTakenBack(rt *rapid.T, s *ledger.State, c commands.Command) {
	rt.Helper()
	fork := s.Fork()
	before := aggregatesAsKept(fork)
	events, rejection := commands.Decide(commands.Submission{Actor: "a", Command: c}, fork)
	if rejection != nil {
		return
	}
	undo := fork.Begin()
	ledgertest.OK(rt, fork.Apply(fork.Next(), &ledger.Record{Time: fork.LastTime(), Events: events}))
	fork.Undo(undo, fork.Changes())
	if after := aggregatesAsKept(fork); !maps.Equal(before, after) {
		rt.Fatalf("%s, taken back, leaves %v, not %v", commands.NameOf(c), after, before)
	}
}
