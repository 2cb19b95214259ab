package commands

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// TestContent: the form that is written by hand equals that of encoding/json, to
// the byte, because fingerprints in records are compared with it for ever.
func TestContent(t *testing.T) {
	for value, fields := range map[reflect.Type]int{
		reflect.TypeFor[AllocateForConsumers](): 1, reflect.TypeFor[ConsumerAllocations](): 7,
		reflect.TypeFor[ProviderAllocation](): 3,
	} {
		if got := value.NumField(); got != fields {
			t.Errorf("%s has %d fields; those that are new must be written, and generated here", value, got)
		}
	}
	text := rapid.OneOf(
		rapid.String(), rapid.StringMatching(`[ -~]{0,20}`),
		rapid.SampledFrom([]string{"", "p", "<&>", `"\\`, "\x00\x7f", "\xff", "\u2028é"}),
	)
	id := rapid.Custom(func(t *rapid.T) (id ledger.UUID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		return id
	})
	resource := rapid.Custom(func(t *rapid.T) ProviderAllocation {
		return ProviderAllocation{
			Provider: id.Draw(t, "provider"), Class: text.Draw(t, "class"), Amount: rapid.Int64().Draw(t, "amount"),
		}
	})
	consumer := rapid.Custom(func(t *rapid.T) ConsumerAllocations {
		return ConsumerAllocations{
			Consumer: id.Draw(
				t, "consumer",
			), Project: text.Draw(t, "project"), User: text.Draw(t, "user"), Type: rapid.Ptr(text, true).Draw(t, "type"),
			Generation: rapid.Ptr(rapid.Uint64(), true).Draw(t, "generation"), AnyGeneration: rapid.Bool().Draw(t, "any"),
			Resources: rapid.OneOf(rapid.SliceOfN(resource, 0, 4), rapid.Just([]ProviderAllocation(nil))).Draw(t, "resources"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		c := &AllocateForConsumers{
			Allocations: rapid.OneOf(rapid.SliceOfN(consumer, 0, 4), rapid.Just([]ConsumerAllocations(nil))).
				Draw(t, "allocations"),
		}
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendContent(nil, c)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%s\n%s", err, got, want)
		}
	})
}

// TestContentOfClaims is TestContent for claims, and what records keep of them. Every
// member of every type in them is drawn, so that one that is new must be written, too.
func TestContentOfClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Claim{}
		drawAll(t, reflect.ValueOf(c).Elem())
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendContent(nil, c)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%s\n%s", err, got, want)
		}
		kept, _ := c.Asked(c.Prefer) // nothing: a request is too large to be kept
		for i := range kept {
			want, err := json.Marshal(struct {
				Gang    []demand.GangRule        `json:"gang,omitempty"`
				OwnFree bool                     `json:"own_free,omitempty"`
				Prefer  *demand.ClaimPreference  `json:"prefer,omitempty"`
				Request *demand.CandidateRequest `json:"request"`
			}{c.Gang, c.OwnFree, c.Prefer, &c.Requests[i]})
			if err != nil || string(kept[i]) != string(want) {
				t.Fatalf("%v\n%s\n%s", err, kept[i], want)
			}
		}
	})
}

// drawAll draws a value of any type, with what is absent, empty and odd in turn.
func drawAll(t *rapid.T, v reflect.Value) {
	if id, is := v.Addr().Interface().(*ledger.UUID); is {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				drawAll(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "present") {
			v.Set(reflect.New(v.Type().Elem()))
			drawAll(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 2).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				drawAll(t, v.Index(i))
			}
		}
	case reflect.Map:
		for range rapid.IntRange(-1, 12).Draw(t, "size") {
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			drawAll(t, key)
			drawAll(t, value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(rapid.OneOf(
			rapid.String(), rapid.StringMatching(`[ -~]{0,20}`),
			rapid.SampledFrom([]string{"", "p", "<&>", `"\\`, "\x00\x7f", "\xff", "\u2028é"}),
		).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(-1e9, 1e9).Draw(t, "float"))
	default:
		t.Fatalf("a %s is not drawn", v.Type())
	}
}
