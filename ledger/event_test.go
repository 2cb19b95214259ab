package ledger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestVocabularyIsComplete requires every type of event to be registered under
// its own name, and to be in the logs that all other tests of events use.
func TestVocabularyIsComplete(t *testing.T) {
	registered := make(map[string]bool)
	for _, name := range ledger.EventKinds() {
		registered[name] = true
	}
	stored := make(map[string]bool)
	for _, history := range ledgertest.Histories(t) {
		for _, commit := range history.Commits {
			for _, record := range commit.Records {
				for _, event := range record.Events {
					stored[ledger.KindOf(event)] = true
				}
			}
		}
	}
	samples := eventTypes(t)
	for _, name := range declaredEvents(t) {
		if !registered[name] {
			t.Errorf("%s is not registered: there is no register(NUMBER, (*%s).form)", name, name)
		}
		if samples[name] == nil {
			t.Errorf("%s is not in ledgertest.EveryEvent", name)
		}
		if !stored[name] {
			t.Errorf("%s is not in ledgertest.Histories", name)
		}
		delete(registered, name)
	}
	for name := range registered {
		t.Errorf("%s is registered, and no type of event", name)
	}
	ledgertest.GoldenLines(t, "events.golden", ledger.EventCodes())
}

// declaredEvents reads from the source which types can be applied to a State.
func declaredEvents(t *testing.T) (names []string) {
	t.Helper()
	files := ledgertest.Must(filepath.Glob("*.go"))
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := ledgertest.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))
		for _, decl := range file.Decls {
			if method, ok := decl.(*ast.FuncDecl); ok && method.Recv != nil && method.Name.Name == "apply" {
				names = append(names, method.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatal("no events in the source")
	}
	return names
}

// eventTypes are the types of all events, by their names.
func eventTypes(t *testing.T) map[string]reflect.Type {
	t.Helper()
	types := make(map[string]reflect.Type)
	for _, event := range ledgertest.EveryEvent() {
		of := reflect.TypeOf(event)
		types[of.Name()] = of
		if kind := ledger.KindOf(event); kind != of.Name() {
			t.Errorf("%s calls itself %s: its method kind returns another's registration", of.Name(), kind)
		}
	}
	return types
}

// TestFormsHoldAllFields stores and reads every type of event with a value in
// each of its fields.
func TestFormsHoldAllFields(t *testing.T) {
	types := eventTypes(t)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t.Run(name, func(t *testing.T) {
			value := reflect.New(types[name]).Elem()
			n := 0
			fill(t, value, &n)
			event := value.Interface().(ledger.Event)
			if ev, ok := event.(ledger.ProviderAggregatesReplaced); ok {
				for i, id := range ev.Aggregates {
					ev.Spelt[i] = "-" + ledger.SpelledPlain.Text(id)
				}
				event = ev
			}
			if _, err := json.Marshal(event); err != nil {
				t.Error(err)
			}
			record := ledger.Record{Events: []ledger.Event{event}}
			_, encoded := ledgertest.Commit(t, ledger.Head{}, record)
			// A form that announces a wrong number of fields would still be read
			// by itself, but not by others.
			rest := bytes.NewReader(encoded)
			if _, err := msgpack.NewDecoder(rest).DecodeInterface(); err != nil || rest.Len() > 0 {
				t.Errorf("the form of %s has not as many fields as it says: %v, %d bytes too many", name, err, rest.Len())
			}
			commit, err := ledger.DecodeCommit(encoded)
			if err != nil {
				t.Fatalf("what %s writes cannot be read: %v", name, err)
			}
			if diff := cmp.Diff(event, commit.Records[0].Events[0]); diff != "" {
				t.Errorf("the form of %s does not hold all of it:\n%s", name, diff)
			}
			if packed := packedAndRead(t, record); !cmp.Equal(record.Events, packed.Events) {
				t.Errorf("packed, %s is read differently:\n%s", name, cmp.Diff(record.Events, packed.Events))
			}
		})
	}
}

// fill puts a different value into each field.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	if v.Type() == reflect.TypeFor[ledger.Document]() {
		v.SetString(fmt.Sprintf(`{"a":%d}`, *n))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n % 256))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		t.Fatalf("no %s can be made up: say here how", v.Type())
	}
}

// TestTopics applies every kind of event alone. It must change exactly what it
// says that it is about, because histories and the rule of one change per commit
// follow from that. Undone, it must leave the State as before, byte for byte.
func TestTopics(t *testing.T) {
	s := ledger.NewState()
	for i, event := range ledgertest.EveryEvent() {
		before := ledgertest.Must(s.Digest())
		record := &ledger.Record{Time: int64(i + 1), Events: []ledger.Event{event}}
		fork := s.Fork()
		for _, state := range []*ledger.State{fork, s} {
			undo := state.Begin()
			if err := state.Apply(uint64(i+1), record); err != nil {
				t.Fatalf("%s: %v", ledger.KindOf(event), err)
			}
			if state == fork {
				fork.Undo(undo, fork.Changes())
			}
		}
		if after, err := fork.Digest(); err != nil || after != before {
			t.Errorf("%s, undone, leaves %s, %v; want %s", ledger.KindOf(event), after, err, before)
		}
		checkTopic(t, event, s.Changes())
	}
}

func checkTopic(t *testing.T, event ledger.Event, changes ledger.Changes) {
	t.Helper()
	changed := map[ledger.Of][]ledger.UUID{}
	for _, c := range changes.Consumers {
		changed[ledger.OfConsumer] = append(changed[ledger.OfConsumer], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.NodeAllocations {
		changed[ledger.OfNodeAllocation] = append(changed[ledger.OfNodeAllocation], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.Nodes {
		changed[ledger.OfNode] = append(changed[ledger.OfNode], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.Chassis {
		changed[ledger.OfChassis] = append(changed[ledger.OfChassis], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.Providers {
		changed[ledger.OfProvider] = append(changed[ledger.OfProvider], either(c.Before, c.After).UUID)
	}
	topic := ledger.TopicOf(event)
	if topic.Of != ledger.OfNothing && !slices.Contains(changed[topic.Of], topic.ID) {
		t.Errorf("%s is about %+v, and changes %v", ledger.KindOf(event), topic, changed)
	}
	if _, many := event.(ledger.ProviderGenerationsAdvanced); topic.Of == ledger.OfNothing && !many && len(changed) > 0 {
		t.Errorf("%s says that it is about nothing, and changes %v", ledger.KindOf(event), changed)
	}
	// one change per event, on which readers of changes rely
	for _, of := range []ledger.Of{ledger.OfConsumer, ledger.OfNodeAllocation} {
		want := []ledger.UUID(nil)
		if topic.Of == of {
			want = []ledger.UUID{topic.ID}
		}
		if !slices.Equal(changed[of], want) {
			t.Errorf("%s is about %+v, and takes the steps %v", ledger.KindOf(event), topic, changed)
		}
	}
	for _, c := range changes.Nodes {
		after := ledger.NodeAfter(c.Before, []ledger.Event{event})
		kept := cmpopts.IgnoreFields(ledger.Node{}, "Number", "CreatedAt", "UpdatedAt", "ProvisionUpdatedAt")
		if diff := cmp.Diff(c.After, after, kept, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("NodeAfter does not know what %s does:\n%s", ledger.KindOf(event), diff)
		}
	}
}

func either[T any](before, after *T) *T {
	if before != nil {
		return before
	}
	return after
}
