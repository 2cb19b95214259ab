package commands

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

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
