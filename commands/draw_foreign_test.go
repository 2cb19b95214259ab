package commands_test

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// TestForeignReservation: a client that is bound to a project is told of a reservation of
// others what it is told of one that does not exist.
func TestForeignReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := func(from ledger.UUID) string {
		c := drawing("q", 2, from, fresh)
		_, rejection := commands.Decide(commands.Submission{Command: c, Project: "q"}, w.State())
		if rejection == nil {
			t.Fatalf("project q drew on %s", from)
		}
		return strings.ReplaceAll(rejection.String(), from.String(), "X")
	}
	if missing, theirs := told(ledger.UUID{15: 9}), told(reserved); missing != theirs {
		t.Errorf("of a reservation of others it is told %q, and of none %q", theirs, missing)
	}
}
