package ledger_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func uuids() *rapid.Generator[ledger.UUID] {
	return rapid.Custom(func(t *rapid.T) (id ledger.UUID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		return id
	})
}

// TestUUIDs: a uuid is read in every form in which it is written, and ordered
// by its bytes.
func TestUUIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a, b := uuids().Draw(rt, "a"), uuids().Draw(rt, "b")
		if rapid.Bool().Draw(rt, "nearly the same") {
			b = a
			b[rapid.IntRange(0, 15).Draw(rt, "byte")]++
		}
		if a.Compare(b) != bytes.Compare(a[:], b[:]) || a.Compare(a) != 0 || a.Before(b) != (a.Compare(b) < 0) {
			rt.Errorf("%s and %s: %d, %v", a, b, a.Compare(b), a.Before(b))
		}
		if a.IsNil() != (a == ledger.NilUUID) {
			rt.Errorf("%s is nil: %v", a, a.IsNil())
		}
		text := a.String()
		for _, form := range []string{
			text, strings.ToUpper(text), strings.ReplaceAll(text, "-", ""), "urn:uuid:" + text, "{" + text + "}",
		} {
			if read, err := ledger.ParseUUID(form); err != nil || read != a {
				rt.Errorf("%s is read as %s, %v", form, read, err)
			}
		}
		var fromJSON, fromText, fromBytes ledger.UUID
		asJSON, err := json.Marshal(a)
		if err != nil || string(asJSON) != `"`+text+`"` || json.Unmarshal(asJSON, &fromJSON) != nil || fromJSON != a {
			rt.Errorf("%s: as JSON %s, %v", a, asJSON, err)
		}
		asText, err := msgpack.Marshal(text)
		if err != nil || msgpack.Unmarshal(asText, &fromText) != nil || fromText != a {
			rt.Errorf("%s: as text %v, %v", a, fromText, err)
		}
		asBytes, err := msgpack.Marshal(a)
		if err != nil || len(asBytes) != 18 || msgpack.Unmarshal(asBytes, &fromBytes) != nil || fromBytes != a {
			rt.Errorf("%s: as bytes %v, %v", a, fromBytes, err)
		}
	})
	good := ledger.UUID{1}
	for name, value := range map[string]any{
		"15 bytes": make([]byte, 15), "17 bytes": make([]byte, 17), "a number": 7, "a text": "hello",
		"a text that is too long": good.String() + "0",
	} {
		packed := ledgertest.Must(msgpack.Marshal(value))
		for _, data := range [][]byte{packed, packed[:len(packed)-1], nil} {
			id := good
			if err := msgpack.Unmarshal(data, &id); err == nil || id != good {
				t.Errorf("%s: read as %s, %v", name, id, err)
			}
		}
	}
	for _, text := range []string{"", "x", good.String()[1:], good.String() + "0", "{" + good.String()} {
		id := good
		if err := id.UnmarshalText([]byte(text)); err == nil || id != good || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: read as %s, %v", text, id, err)
		}
	}
}

// TestNamesOfPlaces: digests and addresses are read back from the text that they
// are written as.
func TestNamesOfPlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		at := ledger.Address{
			Sequence: rapid.Uint64Min(1).Draw(rt, "sequence"), Index: rapid.IntRange(0, 1<<31-1).Draw(rt, "index"),
		}
		if read, err := ledger.ParseAddress(at.String()); err != nil || read != at {
			rt.Errorf("%s is read as %s, %v", at, read, err)
		}
		digest := ledger.DigestOf([]byte(at.String()))
		var read ledger.Digest
		text, err := digest.MarshalText()
		if err != nil || read.UnmarshalText(text) != nil || read != digest || string(text) != digest.String() {
			rt.Errorf("%s is read as %s, %v", text, read, err)
		}
	})
	for _, text := range []string{"", "1", "0.1", "1.", ".1", "1.-1", "-1.1", "1.2.3", "1.2147483648", "18446744073709551616.0"} {
		if at, err := ledger.ParseAddress(text); err == nil || !strings.Contains(err.Error(), "SEQUENCE.INDEX") {
			t.Errorf("%q is read as %s, %v", text, at, err)
		}
	}
	for _, text := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("g", 64)} {
		digest := ledger.Digest{7}
		if err := digest.UnmarshalText([]byte(text)); err == nil || digest != (ledger.Digest{7}) {
			t.Errorf("%q is read as %s, %v", text, digest, err)
		}
	}
	fingerprint, err := json.Marshal(ledger.Fingerprint{0xab, 15: 1})
	if err != nil || string(fingerprint) != `"ab000000000000000000000000000001"` {
		t.Errorf("%s, %v", fingerprint, err)
	}
}
