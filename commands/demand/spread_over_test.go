package demand_test

import (
	"encoding/json"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestSpreadOver: a number of places or the name of a level is read in both encodings, and is written
// as it was; nothing else is either.
func TestSpreadOver(t *testing.T) {
	for text, want := range map[string]*demand.SpreadOver{
		`3`: {Places: 3}, `"rack"`: {Level: "rack"}, `"3"`: {Level: "3"}, `0`: {}, `-1`: {Places: -1},
		`null`: nil, `2.5`: nil, `true`: nil, `[3]`: nil, `{"level":"rack"}`: nil, `18446744073709551615`: nil,
	} {
		var value any
		ledgertest.OK(t, json.Unmarshal([]byte(text), &value))
		if number, is := value.(float64); is && number == float64(int64(number)) {
			value = int64(number)
		}
		if text == "18446744073709551615" {
			value = uint64(1<<64 - 1)
		}
		packed, err := msgpack.Marshal(value)
		ledgertest.OK(t, err)
		for encoding, read := range map[string]func(*demand.SpreadOver) error{
			"JSON":    func(s *demand.SpreadOver) error { return json.Unmarshal([]byte(text), s) },
			"msgpack": func(s *demand.SpreadOver) error { return msgpack.Unmarshal(packed, s) },
		} {
			if encoding == "msgpack" && value == nil {
				continue // the library takes nil for absent, whatever the type
			}
			got := demand.SpreadOver{Places: 7, Level: "before"}
			switch err := read(&got); {
			case want == nil && err == nil:
				t.Errorf("%s of %s is read as %+v", encoding, text, got)
			case want != nil && (err != nil || got != *want):
				t.Errorf("%s of %s is read as %+v: %v", encoding, text, got, err)
			}
		}
		if want == nil {
			continue
		}
		again := demand.SpreadOver{}
		written, err := json.Marshal(want)
		if err != nil || json.Unmarshal(written, &again) != nil || again != *want {
			t.Errorf("%+v is written as %s, %v", want, written, err)
		}
		if written, err = msgpack.Marshal(want); err != nil || msgpack.Unmarshal(written, &again) != nil || again != *want {
			t.Errorf("%+v is written as %x, %v", want, written, err)
		}
	}
}
