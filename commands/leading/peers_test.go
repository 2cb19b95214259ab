package leading

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestCommandsArriveWhole: a command that is passed on to the leader is the same there, with the same fingerprint.
func TestCommandsArriveWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := commandstest.RandomCommand(t)
		parts := []commands.Command{command}
		if batch, is := command.(*commands.Batch); is {
			parts = batch.Commands
		}
		if slices.ContainsFunc(parts, func(c commands.Command) bool { return commands.Registry[commands.NameOf(c)] == nil }) {
			t.Skip("skipped: only the leader's own processes submit it")
		}
		sent := commands.Submission{
			ID: commands.NewID(), Actor: "a", RequestID: "r", Cause: &ledger.Address{Sequence: 7, Index: 2},
			DryRun: rapid.Bool().Draw(t, "dry run"), Project: "p", Client: "c", Command: command,
			Trace: &commands.Trace{Parent: "00-1-2-01", State: "s"},
		}
		data := commandstest.Must(encodeSubmission(sent))
		got := commandstest.Must(readSubmission(data))
		before := commandstest.Must(commands.FingerprintOf(sent.Command))
		after, err := commands.FingerprintOf(got.Command)
		if err != nil || before != after {
			t.Fatalf("another fingerprint (%v): %+v became %+v", err, sent.Command, got.Command)
		}
		got.Command, sent.Command = nil, nil
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestAnswersArriveWhole: the same holds for the leader's answers.
func TestAnswersArriveWhole(t *testing.T) {
	id, generation, command := ledgertest.ID(1, 1), int64(-3), 5
	rejection := &demand.Rejection{Code: demand.CodeCapacityExceeded, Message: "full <&> ☃", Facts: demand.Facts{
		Field: "f", Provider: &id, Consumer: &id, Node: &id, Instance: &id, Allocation: &id, Chassis: &id, State: "s",
		Class: "VCPU", Classes: []string{"a"}, Name: "n", Names: []string{"b"}, Total: 1, Reserved: 2, Ratio: 1.5, Used: 3,
		Asked: 4, MinUnit: 5, MaxUnit: 6, StepSize: 7, Expected: &generation, Got: &generation, SizeBytes: 8, LimitBytes: 9,
		Command: &command,
	}}
	for name, outcome := range map[string]commands.Outcome{
		"accepted": {Address: ledger.Address{Sequence: 1 << 40, Index: 3}},
		"repeated": {Address: ledger.Address{Sequence: 9}, Repeated: true},
		"rejected": {Rejection: rejection}, "dry run": {Events: ledgertest.EveryEvent()}, "nothing to do": {},
	} {
		got := commandstest.Must(carry(t, outcome, nil))
		sent, came := fmt.Sprintf("%+v", ledger.EventLines(outcome.Events)), fmt.Sprintf("%+v", ledger.EventLines(got.Events))
		outcome.Events, got.Events = nil, nil
		if diff := cmp.Diff(sent, came) + cmp.Diff(outcome, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for want, passes := range map[error]bool{
		commands.ErrBusy: true, commands.ErrStopped: true, commands.ErrNoAnswer: true, commands.ErrUnreadable: true,
		commands.ErrNotLeading: true, commands.ErrLogUnavailable: true, fair.ErrBudget: false,
	} {
		_, err := carry(t, commands.Outcome{}, fmt.Errorf("because: %w", want))
		if !errors.Is(err, want) || commands.Passing(err) != passes {
			t.Errorf("%v became %v", want, err)
		}
	}
	if _, err := carry(t, commands.Outcome{}, errors.New("something else")); err == nil || again(err) {
		t.Errorf("an error of the leader's became %v", err)
	}
}

// carry sends an answer from the leader to another replica.
func carry(t *testing.T, outcome commands.Outcome, err error) (commands.Outcome, error) {
	t.Helper()
	sent := answerOf(outcome, err, 42)
	data := commandstest.Must(encoding.Encode(sent, encoding.TypeMsgpack))
	var got carried
	ledgertest.OK(t, encoding.DecodeReply(data, encoding.TypeMsgpack, &got))
	if got.Sequence != 42 {
		t.Errorf("sequence %d", got.Sequence)
	}
	return got.outcome()
}
