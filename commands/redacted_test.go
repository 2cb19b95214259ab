package commands_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHiddenLooksMissing: a client that is bound to a project cannot find out what others
// have. Each command that needs a thing is refused for one of theirs as it is for one that
// does not exist. A command that such a client may submit has a row here, or makes a thing.
func TestHiddenLooksMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		read(t, `CreateNode {"node":"$lostNode","driver":"fake","resource_class":"metal","owner":"q"}`),
		read(t, `RequestNodeAllocation {"allocation":"$noNode","resource_class":"metal","owner":"q"}`),
	)
	makes := []string{"AllocateForConsumers", "Reserve"} // they tell that a uuid is taken, and no more
	needs := maps.Clone(commands.Registry)
	for name, row := range map[string]struct{ about, foreign string }{
		"ReleaseConsumer":       {`{"consumer":"THING"}`, "others"},
		"ConfirmReservation":    {`{"consumer":"THING"}`, "others"},
		"CancelReservation":     {`{"consumer":"THING"}`, "others"},
		"ReleaseNodeAllocation": {`{"allocation":"THING"}`, "noNode"},
		"UpdateNodeAllocation": {
			`{"allocation":"THING","patch":[{"op":"add","path":"/name","value":"b"}]}`, "noNode",
		},
		"RequestNodeAllocation": {
			`{"allocation":"$fresh","resource_class":"metal","owner":"p","candidate_nodes":["THING"]}`, "lostNode",
		},
		"Claim": {
			`{"for":[{"consumer":"$fresh","project":"p","user":"u","from_reservation":"THING"}],
			"requests":[{"groups":[{"resources":{"VCPU":1}}]}]}`, "others",
		},
	} {
		told := func(id ledger.UUID) string {
			var said []string
			c := read(t, name+" "+strings.ReplaceAll(row.about, "THING", id.String()))
			for _, c := range []commands.Command{c, batch(c)} {
				_, r := commands.Decide(commands.Submission{Actor: "a", Command: searching(c), Project: "p"}, w.State())
				if r == nil {
					t.Fatalf("%s is accepted", name)
				}
				text := commandstest.Must(json.Marshal(r))
				said = append(said, strings.ReplaceAll(string(text), id.String(), "ID"))
			}
			return strings.Join(said, "\n")
		}
		delete(needs, name)
		if foreign, missing := told(id(row.foreign)), told(ledgertest.ID(7, 99)); foreign != missing {
			t.Errorf("%s: of a thing of others:\n%s\nof none:\n%s", name, foreign, missing)
		}
	}
	for name, empty := range needs {
		r := commands.Foreign(commands.Submission{Command: empty(), Project: "p"}, w.State())
		if !slices.Contains(makes, name) && (r == nil || r.Message != name+" is not for a client that is bound to project p") {
			t.Errorf("%s: a client that is bound to a project may submit it, and no row shows what it finds out: %+v", name, r)
		}
	}
}
