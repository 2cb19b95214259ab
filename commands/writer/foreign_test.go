package writer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// everyCommand returns a well-formed command of each kind that clients may submit.
func everyCommand(t *testing.T) map[string]commands.Command {
	t.Helper()
	random := rapid.Custom(commandstest.RandomCommand)
	found := make(map[string]commands.Command)
	for seed := 0; len(found) < len(commands.Registry)+1; seed++ {
		if seed == 20_000 {
			t.Fatalf("only %d kinds of commands were drawn", len(found))
		}
		c := random.Example(seed)
		name := commands.NameOf(c)
		if _, internal := commands.Internal[name]; !internal && found[name] == nil && commands.Check(c) == nil {
			found[name] = c
		}
	}
	return found
}

// TestRepeatsOfOthers: a client that is bound to a project, and has guessed the id and the
// content of a command of another client, is told what it would be told of a thing that it
// may not touch, or that the id is taken. The other client is told the first result.
func TestRepeatsOfOthers(t *testing.T) {
	t.Parallel()
	log := &memlog.Log{}
	first := commandstest.Start(t, t.TempDir(), log)
	all := everyCommand(t)
	ids := make(map[string]ledger.UUID, len(all))
	var records []ledger.Record
	for name, c := range all {
		fingerprint := commandstest.Must(commands.FingerprintOf(c))
		ids[name] = commandstest.NewID()
		records = append(records, ledger.Record{
			CommandID: ids[name], Fingerprint: fingerprint, Command: name, Time: time.Now().UnixNano(), Actor: "nats:b",
			Events: []ledger.Event{ledger.TraitCreated{Name: fmt.Sprint("CUSTOM_", len(records))}},
		})
	}
	sealed := appendBehind(t, log, first.Views.Checkpoint(), records...)
	l := commandstest.Start(t, t.TempDir(), log)
	for name, c := range all {
		submit := func(actor, project string, c commands.Command) commands.Outcome {
			t.Helper()
			outcome, err := l.Writer.Submit(t.Context(), commands.Submission{
				ID: ids[name], Actor: actor, Project: project, Command: c,
			})
			if err != nil {
				t.Fatal(name, err)
			}
			return outcome
		}
		o := submit("nats:a", "a", c)
		place := fmt.Sprintf(" %d.", sealed.Sequence)
		if r := o.Rejection; r == nil || o.Repeated || o.Address != (ledger.Address{}) || len(o.Events) > 0 ||
			r.Code != demand.CodeCommandIDReused && r.Code != demand.CodeForbidden ||
			strings.Contains(r.Message, place) {
			t.Errorf("%s: a stranger is told %+v", name, o)
		}
		for actor, project := range map[string]string{"nats:b": "b", "nats:root": ""} {
			if o := submit(actor, project, c); !o.Repeated || o.Address.Sequence != sealed.Sequence {
				t.Errorf("%s: %s is told %+v", name, actor, o)
			}
		}
		if r := submit("nats:b", "", trait(1)).Rejection; r == nil || r.Code != demand.CodeCommandIDReused {
			t.Errorf("%s: another command under its id: %v", name, r)
		}
	}
}

// TestFollowersOfOthers: the same holds while the command of the other client is under way.
func TestFollowersOfOthers(t *testing.T) {
	t.Parallel()
	log := &memlog.Log{}
	l := commandstest.Start(t, t.TempDir(), log)
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 10})
	gate := make(chan struct{})
	log.Gate = func() { <-gate }
	s := commands.Submission{
		ID: commandstest.NewID(), Actor: "nats:b", Project: "project",
		Command: commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1),
	}
	start := func(actor, project string) chan commands.Outcome {
		s.Actor, s.Project = actor, project
		answered := make(chan commands.Outcome, 1)
		l.Writer.Start(s, func(o commands.Outcome, err error) {
			if err != nil {
				t.Error(err)
			}
			answered <- o
		})
		return answered
	}
	mine := start("nats:b", "project")
	stranger, colleague, again := start("nats:a", "a"), start("nats:c", "project"), start("nats:b", "project")
	close(gate)
	if o := <-mine; o.Rejection != nil || o.Repeated {
		t.Errorf("the first is told %+v", o)
	}
	if o := <-stranger; o.Rejection == nil || o.Rejection.Code != demand.CodeForbidden {
		t.Errorf("a stranger is told %+v", o)
	}
	if o := <-colleague; o.Rejection == nil || o.Rejection.Code != demand.CodeCommandIDReused {
		t.Errorf("another client of the project is told %+v", o)
	}
	if o := <-again; o.Rejection != nil || !o.Repeated {
		t.Errorf("the same client is told %+v", o)
	}
}
