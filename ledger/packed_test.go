package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// encodedRecord returns the stored form of a record.
func encodedRecord(t testing.TB, r ledger.Record) []byte {
	t.Helper()
	_, encoded := ledgertest.Commit(t, ledger.Head{}, r)
	leaves := ledgertest.Must(ledger.LeavesData(encoded))
	return leaves[0][len(ledger.LeafData(ledger.Address{}, nil)):]
}

// packedAndRead packs a record and reads it again.
func packedAndRead(t testing.TB, r ledger.Record) *ledger.Record {
	t.Helper()
	_, read, err := ledger.DecodeLeafData(ledger.LeafData(ledger.Address{Sequence: 1}, encodedRecord(t, r)))
	ledgertest.OK(t, err)
	return read
}

// TestPackedRecords: a record is read as it was packed, whatever its names and ids are
// and however often they come.
func TestPackedRecords(t *testing.T) {
	t.Parallel()
	ids := rapid.Custom(func(t *rapid.T) ledger.UUID { return ledgertest.ID(1, rapid.Byte().Draw(t, "id")) })
	few := rapid.Custom(func(t *rapid.T) ledger.UUID { return ledgertest.ID(1, byte(rapid.IntRange(0, 2).Draw(t, "id"))) })
	names := rapid.Custom(func(t *rapid.T) string {
		id := rapid.OneOf(ids, few).Draw(t, "id").String()
		plain := strings.ReplaceAll(id, "-", "")
		name := rapid.OneOf(
			rapid.SampledFrom([]string{id, plain, "req-" + id, "req-" + plain, strings.ToUpper(id), "{" + id[1:35] + "}", "urn:uuid:" + id, ""}),
			rapid.SampledFrom(ledger.WellKnownNames()), rapid.String(),
		).Draw(t, "name")
		if len(name) > 0 && rapid.IntRange(0, 9).Draw(t, "changed") == 0 {
			changed := []byte(name)
			changed[rapid.IntRange(0, len(name)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0fAFgG-{}\x00\xff")).Draw(t, "is")
			name = string(changed)
		}
		return name
	})
	rapid.Check(t, func(rt *rapid.T) {
		r := ledger.Record{
			CommandID: ids.Draw(rt, "command"), Command: names.Draw(rt, "command"), Time: rapid.Int64().Draw(rt, "time"),
			Actor: names.Draw(rt, "actor"), RequestID: names.Draw(rt, "request"),
		}
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			ev := ledger.AllocationsReplaced{
				Consumer: ids.Draw(rt, "consumer"), Project: names.Draw(rt, "project"), User: names.Draw(rt, "user"),
				Type: names.Draw(rt, "type"),
			}
			for range rapid.IntRange(0, 3).Draw(rt, "allocations") {
				ev.Allocations = append(ev.Allocations, ledger.AllocationRecord{
					Provider: rapid.OneOf(ids, few).Draw(rt, "provider"), Class: names.Draw(rt, "class"), Amount: rapid.Int64().Draw(rt, "amount"),
				})
			}
			r.Events = append(r.Events, ev, ledger.ProviderTraitsReplaced{
				Provider: few.Draw(rt, "provider"), Traits: rapid.SliceOfN(names, 0, 3).Draw(rt, "traits"),
			}, ledger.ProviderAggregatesReplaced{
				Provider: few.Draw(rt, "provider"), Aggregates: rapid.SliceOfN(few, 0, 3).Draw(rt, "aggregates"),
			})
		}
		if diff := cmp.Diff(&r, packedAndRead(t, r), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestPackedDamage: values of records that no server writes are refused.
func TestPackedDamage(t *testing.T) {
	t.Parallel()
	id := ledgertest.ID(2, 1)
	event := ledger.AllocationsReplaced{
		Consumer: ledgertest.ID(3, 3), Project: "X", User: "Y",
		Allocations: []ledger.AllocationRecord{{Provider: ledgertest.ID(1, 1), Class: "Z", Amount: 1}},
	}
	r := ledger.Record{CommandID: id, Command: "C", Actor: "A", RequestID: "R", Events: []ledger.Event{event}}
	consumer, provider := "\xc4\x10"+string(event.Consumer[:]), "\xc4\x10"+string(event.Allocations[0].Provider[:])
	for _, c := range []struct {
		name     string
		old, new string
		whole    bool
	}{
		{"an id that was there before", consumer, "\x00", true},
		{"an id that was never named", consumer, "\x01", false},
		{"the second last id", provider, "\x01", true},
		{"one before the first", provider, "\x02", false},
		{"an id as a large number", consumer, "\xcc\x00", false},
		{"an id as a negative number", consumer, "\xff", false},
		{"an id of 15 bytes", consumer, "\xc4\x0f" + string(event.Consumer[1:]), false},
		{"an id as a name", consumer, "\xd8\x00" + string(event.Consumer[:]), false},
		{"a name that is known", "\xa1Z", "\x00", true},
		{"a name that is not", "\xa1Z", string([]byte{byte(len(ledger.WellKnownNames()))}), false},
		{"a name as a large number", "\xa1Z", "\xcc\x00", false},
		{"a name that is a uuid", "\xa1X", "\xd8\x02" + string(id[:]), true},
		{"a name in an unknown spelling", "\xa1X", "\xd8\x03" + string(id[:]), false},
		{"a name in a negative spelling", "\xa1X", "\xd8\xff" + string(id[:]), false},
		{"a name that spells an id before", "\xa1X", "\xd4\x01\x01", true},
		{"a name that spells none", "\xa1X", "\xd4\x01\x02", false},
		{"a name that spells one far away", "\xa1X", "\xd4\x01\xff", false},
		{"a spelling of two bytes", "\xa1X", "\xd5\x01\x00\x00", false},
		{"a spelling that is cut", "\xa1Z\x01", "\xd8\x01\x00", false},
		{"no name", "\xa1Z", "\xc0", true}, // as in other records
	} {
		stored := encodedRecord(t, r)
		if bytes.Count(stored, []byte(c.old)) != 1 {
			t.Fatalf("%s: %q is not once in %q", c.name, c.old, stored)
		}
		data := ledger.LeafData(ledger.Address{Sequence: 1}, bytes.Replace(stored, []byte(c.old), []byte(c.new), 1))
		_, _, err := ledger.DecodeLeafData(data)
		if c.whole && err != nil || !c.whole && !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPackedMemory: the references of a hostile record, of which a few bytes stand for
// a name, take a bounded multiple of what it takes itself: at most twice what empty
// names take for their bytes.
func TestPackedMemory(t *testing.T) {
	const names = 100_000
	perByte := func(name string) float64 {
		t.Helper()
		traits := ledger.ProviderTraitsReplaced{Provider: ledgertest.ID(1, 1), Traits: slices.Repeat([]string{name}, names)}
		data := ledger.LeafData(ledger.Address{Sequence: 1}, encodedRecord(t, ledger.Record{
			CommandID: ledgertest.ID(2, 1), Command: "C", Events: []ledger.Event{traits},
		}))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := ledger.DecodeLeafData(data); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(data))
	}
	most := 2 * perByte("")
	for what, name := range map[string]string{
		"a well-known name": "VCPU",
		"an id":             "req-" + ledgertest.ID(2, 1).String(),
		"another id":        ledgertest.ID(3, 1).String(),
	} {
		if took := perByte(name); took > most {
			t.Errorf("%s takes %.0f bytes for each of its own, and may take %.0f", what, took, most)
		}
	}
}

// TestWellKnownNames: the names that are numbers in packed records keep their numbers,
// each has one, and one byte is enough for it.
func TestWellKnownNames(t *testing.T) {
	t.Parallel()
	names := ledger.WellKnownNames()
	var lines []string
	for number, name := range names {
		lines = append(lines, fmt.Sprintf("%d=%s", number, name))
	}
	ledgertest.GoldenLines(t, "names.golden", lines)
	slices.Sort(names)
	if differ := len(slices.Compact(names)); differ > 128 || differ != len(lines) {
		t.Errorf("%d names, of which %d differ", len(lines), differ)
	}
}
