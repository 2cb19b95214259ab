package commands_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestRedacted: a client that is bound to a project is told the figures of its
// own limits, and of those above it only that they exist.
func TestRedacted(t *testing.T) {
	t.Parallel()
	more := allocations(allocate(fresh, host, vcpu, 2))
	above := steps{&commands.PlaceProject{Project: "p", Parent: "root"}, limitOf("root", vcpu, 4)}
	for name, row := range map[string]struct {
		before  []commands.Command
		command commands.Command
		told    bool
	}{
		"its own":      {steps{limitOf("p", vcpu, 4)}, more, true},
		"a default":    {steps{limitOf("", vcpu, 4)}, more, true},
		"of one above": {above, more, false},
		"in a batch":   {above, batch(more), false},
		"of a claim":   {above, claim(map[string]int64{vcpu: 2}, fresh), false},
		"of an aggregate": {steps{
			&commands.ReplaceProviderAggregates{Provider: host, Aggregates: []ledger.UUID{aggregate}},
			&commands.SetLimit{Aggregate: aggregate, Class: vcpu, Most: ptr[int64](4)},
		}, more, false},
		"consumers of root": {steps{
			above[0], &commands.SetLimit{Project: "root", Type: "unknown", Most: ptr[int64](0)},
		}, more, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, row.before...)
			submission := commands.Submission{Actor: "a", Command: searching(row.command), Project: "p"}
			_, r := commands.Decide(submission, w.State())
			if r == nil || r.Code != demand.CodeOverLimit || r.Facts.Asked == 0 {
				t.Fatalf("%+v", r)
			}
			if told := r.Facts.Limit != nil || r.Facts.Used != 0 || r.Facts.Project != "" || r.Facts.Aggregate != nil; told != row.told {
				t.Errorf("%+v", r)
			}
			if strings.Contains(r.Message, "root") || strings.Contains(r.Message, aggregate.String()) {
				t.Error(r.Message)
			}
			submission.Project = ""
			if _, r := commands.Decide(submission, w.State()); r == nil || r.Facts.Limit == nil || r.Facts.Project == "" && r.Facts.Aggregate == nil {
				t.Errorf("not bound: %+v", r)
			}
		})
	}
}

// TestHiddenLooksMissing: a client that is bound to a project cannot find out what others
// have. Each command that needs a thing is refused for one of theirs as it is for one that
// does not exist. A command that such a client may submit has a row here, or makes a thing.
func TestHiddenLooksMissing(t *testing.T) {
	t.Parallel()
	foreignNode := ledgertest.ID(5, 77)
	w := newWorld(t,
		&commands.CreateNode{Node: foreignNode, NodeFields: commands.NodeFields{
			Driver: ptr("fake"), ResourceClass: ptr("metal"), Owner: ptr("q"),
		}},
		requestAs(hidden, wish{Owner: "q"}),
	)
	makes := []string{"AllocateForConsumers", "Reserve"} // they tell that a uuid is taken, and no more
	needs := maps.Clone(commands.Registry)
	type about = func(ledger.UUID) commands.Command
	of := func(c commands.Command, field string) about {
		return func(id ledger.UUID) commands.Command { return naming(c, field, id) }
	}
	renamed := &commands.UpdateNodeAllocation{Patch: []commands.PatchOperation{set("/name", `"b"`)}}
	for name, row := range map[string]struct {
		foreign ledger.UUID
		about
	}{
		"ReleaseConsumer":       {others, of(&commands.ReleaseConsumer{}, "Consumer")},
		"ConfirmReservation":    {others, of(&commands.ConfirmReservation{}, "Consumer")},
		"CancelReservation":     {others, of(&commands.CancelReservation{}, "Consumer")},
		"Claim":                 {others, func(id ledger.UUID) commands.Command { return drawing("p", 1, id, fresh) }},
		"ReleaseNodeAllocation": {hidden, of(&commands.ReleaseNodeAllocation{}, "Allocation")},
		"UpdateNodeAllocation":  {hidden, of(renamed, "Allocation")},
		"RequestNodeAllocation": {foreignNode, func(id ledger.UUID) commands.Command {
			return request(wish{Owner: "p", CandidateNodes: []ledger.UUID{id}})
		}},
	} {
		told := func(id ledger.UUID) string {
			var said []string
			for _, c := range []commands.Command{row.about(id), batch(row.about(id))} {
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
		if foreign, missing := told(row.foreign), told(ledgertest.ID(7, 99)); foreign != missing {
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

// hidden is a node allocation of others.
var hidden = ledgertest.ID(6, 77)
