package commands_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestPatchValues: a value in a patch is the same whether it came as JSON or as msgpack, and is stored in one form.
func TestPatchValues(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny(),
			rapid.Float64Range(0.5, 0.9).AsAny(), rapid.Just[any]("</>&\u2028"),
		}
		if depth > 0 {
			below := rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) })
			kinds = append(kinds, rapid.SliceOfN(below, 0, 3).AsAny(), rapid.MapOfN(rapid.String(), below, 0, 3).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		drawn := value(3).Draw(rt, "value")
		text, err := json.MarshalIndent(drawn, "", "  ") // not the form in which it is stored
		ledgertest.OK(rt, err)
		var fromJSON, fromMsgpack commands.PatchOperation
		if err := json.Unmarshal([]byte(`{"op":"add","path":"/extra/a","value":`+string(text)+`}`), &fromJSON); err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		packed := commandstest.Must(msgpack.Marshal(fromJSON))
		if err := msgpack.Unmarshal(packed, &fromMsgpack); err != nil {
			rt.Fatalf("%s as msgpack: %v", text, err)
		}
		if fromJSON != fromMsgpack {
			rt.Errorf("JSON is read as %+v, msgpack as %+v", fromJSON, fromMsgpack)
		}
		var back any
		if err := json.Unmarshal([]byte(fromJSON.Value), &back); err != nil || !sameJSON(drawn, back) {
			rt.Errorf("%s is kept as %s, %v", text, fromJSON.Value, err)
		}
	})
}

// sameJSON compares what was written with what was read of it.
func sameJSON(wrote, read any) bool {
	text, err := json.Marshal(wrote)
	if err != nil {
		return false
	}
	var normal any
	return json.Unmarshal(text, &normal) == nil && reflect.DeepEqual(normal, read)
}

// TestPatchValuesThatJSONCannotSay are refused, and change nothing.
func TestPatchValuesThatJSONCannotSay(t *testing.T) {
	for name, value := range map[string]any{
		"bytes": []byte{1}, "keys that are no texts": map[int]int{1: 1}, "no number": []float64{math.NaN()},
	} {
		packed := commandstest.Must(msgpack.Marshal(map[string]any{"op": "add", "path": "/extra/a", "value": value}))
		var read commands.PatchOperation
		if err := msgpack.Unmarshal(packed, &read); err == nil || read.Value != "" {
			t.Errorf("%s: read as %s, %v", name, read.Value, err)
		}
	}
	var op commands.PatchOperation
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	if err := json.Unmarshal([]byte(`{"op":"add","path":"/extra/a","value":`+deep+`}`), &op); err == nil || op.Value != "" {
		t.Errorf("70 lists in each other: read as %s, %v", op.Value, err)
	}
}

// TestAskedIsCanonical: what the record keeps of a request is a document as all documents are kept.
func TestAskedIsCanonical(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		claim := commandstest.RandomClaim(rt).Claim
		for _, claim.Requests = range claim.Lists() {
			kept, rejection := claim.Asked(claim.Prefer)
			if rejection != nil {
				rt.Fatal(rejection)
			}
			for _, asked := range kept {
				if document, err := ledger.ParseDocument([]byte(asked)); err != nil || document != asked {
					rt.Fatalf("%s, not %s: %v", asked, document, err)
				}
			}
		}
	})
}

// TestDecodeRefuses texts that are no command, with the reason.
func TestDecodeRefuses(t *testing.T) {
	many := "[" + strings.Repeat(`{"command":"CreateTrait","body":{}},`, commands.MaxBatch) + `{}]`
	for _, c := range []struct{ name, body, why string }{
		{"Fly", `{}`, `no command "Fly"`},
		{"ChooseNode", `{}`, `no command "ChooseNode"`}, // submitted by the server itself
		{"CreateTrait", `{"name":`, "unexpected EOF"},
		{"CreateTrait", `{"name":1}`, "cannot unmarshal"},
		{"CreateTrait", `{"colour":"red"}`, `unknown field "colour"`},
		{"Claim", `{"wait":60}`, `unknown field "wait"`},
		{"Claim", `{"priority":1}`, `unknown field "priority"`},
		{"ReleaseConsumer", `{"consumer":"x"}`, `"x" is not a uuid`},
		{"UpdateNode", `{"patch":[{"value":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}]}`, "levels deep"},
		{"Batch", `{}`, "cannot unmarshal"},
		{"Batch", `[{"command":"Fly","body":{}}]`, `no command "Fly"`},
		{"Batch", `[{"command":"Batch","body":[]}]`, "holds no batches"},
		{"Batch", many, "10001 commands, at most 10000"},
	} {
		got, err := commands.Decode(c.name, []byte(c.body))
		if err == nil || got != nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s %.60s: %v, %v; want an error with %q", c.name, c.body, got, err, c.why)
		}
	}
}

// TestWhatDoesNotFollow: a command that contradicts an earlier one of its batch is rejected; alone it is an error.
// Neither changes anything, and neither stops the writer.
func TestWhatDoesNotFollow(t *testing.T) {
	w := newWorld(t)
	before := digest(t, w)
	contradiction := &commands.Impossible{CreateTrait: commands.CreateTrait{Name: none}}
	_, rejection := commands.Decide(commands.Submission{
		Command: &commands.Batch{Commands: []commands.Command{&commands.CreateTrait{Name: "CUSTOM_A"}, contradiction}},
	}, w.State())
	if rejection == nil || rejection.Code != demand.CodeInvalid || *rejection.Facts.Command != 1 {
		t.Errorf("in a batch: %v", rejection)
	}
	events, rejection, err := w.Carry(commands.Submission{Command: contradiction})
	if !errors.Is(err, ledger.ErrInvariant) || rejection != nil || events != nil {
		t.Errorf("alone: %v, %v, %v", events, rejection, err)
	}
	if after := digest(t, w); after != before {
		t.Error("the State has changed")
	}
	w.accept(&commands.CreateTrait{Name: none})
}
