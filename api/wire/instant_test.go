package wire

import (
	"encoding/json"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestInstants: a moment is a sequence, as a number or as a text, or a time, in both encodings.
func TestInstants(t *testing.T) {
	for value, want := range map[any]string{
		7: "7", uint64(7): "7", "7": "7", "2026-05-01T00:00:00Z": "2026-05-01T00:00:00Z", -1: "", 1.5: "", true: "",
	} {
		var first, second Instant
		text, err := json.Marshal(value)
		ledgertest.OK(t, err)
		packed, err := msgpack.Marshal(value)
		ledgertest.OK(t, err)
		for encoding, read := range map[string]error{
			"JSON": json.Unmarshal(text, &first), "msgpack": msgpack.Unmarshal(packed, &second),
		} {
			if (read == nil) != (want != "") || read == nil && first+" "+second != Instant(want+" "+want) {
				t.Errorf("%v in %s: %q and %q, %v", value, encoding, first, second, read)
			}
		}
	}
}
