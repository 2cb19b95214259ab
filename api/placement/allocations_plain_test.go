package placement_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	plainProvider = "11111111-aaaa-4111-8111-111111111111"
	plainConsumer = "22222222-bbbb-4222-8222-222222222222"
)

// novaBody is what nova sends at 1.36.
const novaBody = `{"allocations": {"` + plainProvider + `": {"resources": {"VCPU": 2, "MEMORY_MB": 2048}},
	"33333333-3333-4333-8333-333333333333": {"generation": 7, "resources": {"CUSTOM_1": 1}}},
	"mappings": {"_GROUP-1": ["` + plainProvider + `"]}, "project_id": "p", "user_id": "u", "consumer_generation": null}`

// samePlain checks that what is read as plain is what the schema reads.
func samePlain(t testing.TB, body []byte, minor int, many bool) (plain bool) {
	t.Helper()
	got, plain := placement.PlainAllocations(body, minor, many)
	if !plain {
		return false
	}
	want, err := placement.ValidAllocations(body, minor, many)
	if err != nil {
		t.Fatalf("1.%d: the schema refuses what is read as plain: %v\n%s", minor, err, body)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("1.%d:\n%s\nread as   %+v\nit says   %+v", minor, body, got, want)
	}
	return true
}

// TestPlainIsWhatTheSchemaSays: each part of a body is replaced by each odd one, at
// all microversions that changed something. What clients send is read in one pass.
func TestPlainIsWhatTheSchemaSays(t *testing.T) {
	t.Parallel()
	taken, left := 0, 0
	write := func(b *oddBody, minor int, many bool) []byte {
		body := b.consumer(minor)
		if many {
			body = b.object(`"`+plainConsumer+`"`, body)
		}
		return []byte(body)
	}
	for i, minor := range []int{8, 12, 13, 27, 28, 33, 34, 37, 38, 39} {
		if i%ledgertest.Cases(1, 4) > 0 {
			continue
		}
		for _, many := range []bool{false, true} {
			if many && minor < 13 {
				continue
			}
			for _, shape := range []int{12, 28, 34, 38} { // with members that others have
				parts := 1
				for at := -1; at < parts; at++ { // all, and with one left out
					b := &oddBody{at: at, odd: `null`}
					body := write(b, shape, many)
					parts = b.parts
					samePlain(t, body, minor, many)
				}
			}
			if whole := write(&oddBody{at: -1}, minor, many); minor >= 12 && !samePlain(t, whole, minor, many) {
				t.Errorf("at 1.%d, many %v: not plain: %s", minor, many, whole)
			}
			for _, odd := range oddParts {
				parts := 1
				for at := 0; at < parts; at++ {
					b := &oddBody{at: at, odd: odd}
					body := write(b, minor, many)
					parts = b.parts
					if samePlain(t, body, minor, many) {
						taken++
					} else {
						left++
					}
				}
			}
		}
	}
	const none = `{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":5}`
	for body, minor := range map[string]int{novaBody: 36, none: 28} {
		if !samePlain(t, []byte(body), minor, false) {
			t.Errorf("at 1.%d: not plain: %s", minor, body)
		}
	}
	t.Logf("%d bodies were plain, %d were not", taken, left)
	if taken == 0 || left == 0 {
		t.Error("the test says nothing")
	}
}

// oddBody writes a body of which one part is an odd one.
type oddBody struct {
	at    int // place of the odd part
	odd   string
	parts int // that were written
}

var oddParts = []string{
	`null`, `true`, `0`, `-1`, `1.0`, `1e3`, `99999999999999999999`, `""`, `"é"`, `"\u0041"`, `"a b"`, `"A"`, `"vcpu"`, `{}`, `[]`,
	`[{}]`, `{"VCPU":1,"VCPU":1}`, `"` + plainProvider + `"`, `"` + strings.ToUpper(plainProvider) + `"`,
	`"aaaaaaaa-aaaaaaaa-aaaa-aaaa-aaaaaaaaa"`, `"00000000-0000-0000-0000-000000000000"`, `["x"]`, `"project_id"`, `1 1`, `}`,
	"\"\xff\"", `"` + strings.Repeat("x", 256) + `"`, `"` + strings.Repeat("A", 256) + `"`,
}

// part returns a good part, or the odd one.
func (b *oddBody) part(good string) string {
	b.parts++
	if b.parts-1 == b.at {
		return b.odd
	}
	return good
}

// object writes an object from names and values. One of them may be left out, or
// be there twice.
func (b *oddBody) object(parts ...string) string {
	var members []string
	for i := 0; i+1 < len(parts); i += 2 {
		one := b.part(parts[i]) + ":" + b.part(parts[i+1])
		switch b.part("") {
		case `null`:
		case `true`:
			members = append(members, one, one)
		default:
			members = append(members, one)
		}
	}
	return b.part("{"+strings.Join(members, ",")+"}") + b.part("")
}

func (b *oddBody) consumer(minor int) string {
	resources := b.object(`"VCPU"`, `3`, `"CUSTOM_X_1"`, `9223372036854775807`)
	parts := []string{
		`"allocations"`, b.object(
			`"`+plainProvider+`"`, b.object(`"resources"`, resources, `"generation"`, `4`),
			`"`+plainConsumer+`"`, b.object(`"resources"`, resources),
		), `"project_id"`, `"p"`, `"user_id"`, `"u"`,
	}
	if minor >= 28 {
		parts = append(parts, `"consumer_generation"`, `17`)
	}
	if minor >= 34 {
		parts = append(parts, `"mappings"`, b.object(`"_a-1"`, b.part(`["`+plainProvider+`"]`)))
	}
	if minor >= 38 {
		parts = append(parts, `"consumer_type"`, `"INSTANCE"`)
	}
	return b.object(parts...)
}

// FuzzPlainAllocations looks for a body that is read as plain and means something
// else.
func FuzzPlainAllocations(f *testing.F) {
	f.Add([]byte(novaBody), 36, false)
	f.Add([]byte(`{"`+plainConsumer+`":`+novaBody+`}`), 36, true)
	f.Fuzz(func(t *testing.T, body []byte, minor int, many bool) {
		if minor = min(max(minor, 0), 39); many {
			minor = max(minor, 13)
		}
		samePlain(t, body, minor, many)
	})
}
