package commands_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// recording are the commands that say what is so already, whatever the limits.
var recording = map[string]bool{
	"PlaceProject":     true, // an operator says where a project is
	"SetNodeProviders": true, "ExpireReservation": true, "BeginTerm": true, "SetConsumptionRoot": true,
}

// TestLimitsHold: whatever command is carried out, no project's usage grows
// beyond a limit, its own or one above it, as it was before or is after it.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	grown, refused := map[string]int{}, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{Scratch: commands.NewScratch(ledger.NewState()), t: t}
		w.accept(standardNames(t))
		w.accept(commandstest.SomeThings()...)
		w.accept(&commands.PlaceProject{Project: "p", Parent: "q"}, limitOf("", vcpu, rapid.Int64Range(1, 6).Draw(rt, "most")))
		for range 40 {
			c := commandstest.RandomCommand(rt)
			switch rapid.IntRange(0, 9).Draw(rt, "likely") {
			case 0:
				claim := commandstest.RandomClaim(rt)
				claim.Prefer = nil // most with one find nothing
				c = claim
			case 1:
				c = randomAllocate(rt) // most others are rejected for what they name
			}
			before := projectsAsCounted(w.State())
			limits := limitsNow(w.State())
			_, rejection := w.carry(c)
			if rejection != nil && rejection.Code == demand.CodeOverLimit {
				refused[commands.NameOf(c)]++
			}
			after := projectsAsCounted(w.State())
			_, isBatch := c.(*commands.Batch)
			for key, used := range after {
				if used <= before[key] || len(before) == 0 {
					continue
				}
				grown[commands.NameOf(c)]++
				most, limited := limits[key]
				if limited && used > most && !isBatch && !recording[commands.NameOf(c)] {
					rt.Fatalf("%s lets %s grow from %d to %d, and its limit is %d", commands.NameOf(c), key, before[key], used, most)
				}
			}
		}
	})
	t.Logf("grown by %v, refused %v", grown, refused)
	missed := refused["AllocateForConsumers"] == 0 || grown["AllocateForConsumers"] == 0 || refused["Claim"] == 0
	if missed && !ledgertest.Raced {
		t.Errorf("grown by %v, refused %v", grown, refused)
	}
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
