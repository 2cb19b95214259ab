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
// the byte, because fingerprints in records are compared with it for ever. So does what
// records keep of a claim. Every member of every type is drawn, so that a new one must be
// written, too.
func TestContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claim := &Claim{}
		for _, c := range []Command{&AllocateForConsumers{}, claim} {
			drawAll(t, reflect.ValueOf(c).Elem())
			got, err := appendContent(nil, c)
			sameAsJSON(t, c, got, err)
		}
		kept, _ := claim.Asked(claim.Prefer) // nothing: a request is too large to be kept
		for i := range kept {
			sameAsJSON(t, struct {
				Gang    []demand.GangRule        `json:"gang,omitempty"`
				OwnFree bool                     `json:"own_free,omitempty"`
				Prefer  *demand.ClaimPreference  `json:"prefer,omitempty"`
				Request *demand.CandidateRequest `json:"request"`
			}{claim.Gang, claim.OwnFree, claim.Prefer, &claim.Requests[i]}, []byte(kept[i]), nil)
		}
	})
}

func sameAsJSON(t *rapid.T, value any, got []byte, err error) {
	want, failed := json.Marshal(value)
	if err != nil || failed != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v, %v\n%s\n%s", err, failed, got, want)
	}
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
