package commands_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestOutdated: what was found for a claim is taken only if its providers, and those
// above them, still are as the search saw them, but for what is used, if what is
// required about other consumers is still true, and if its preference is still the same.
func TestOutdated(t *testing.T) {
	t.Parallel()
	var before steps
	var claim *commands.Claim
	ledgertest.Answers(t, "testdata/outdated.txt", func(line, _ string) string {
		c := read(t, line)
		if next, is := c.(*commands.Claim); is {
			claim = next
			return decideAfter(t, claim, before)
		}
		if claim == nil {
			before = append(before, c)
			return ""
		}
		return decideAfter(t, claim, before, c)
	})
}

// decideAfter searches a claim in a world, changes the world, and decides the claim with what was found.
func decideAfter(t *testing.T, claim *commands.Claim, before steps, changes ...commands.Command) string {
	t.Helper()
	w := newWorld(t, before...)
	found, rejection := claiming.InState(w.State().Fork(), &claim.Claim)
	if rejection != nil {
		t.Fatal(rejection)
	}
	found.Last = false // it may be searched again
	w.accept(changes...)
	with := commands.WithFound(claim, []*demand.Found{found})
	if _, rejection := commands.Decide(commands.Submission{Command: with}, w.State()); rejection != nil {
		return string(rejection.Code)
	}
	return "taken"
}
