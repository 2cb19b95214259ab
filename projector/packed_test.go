package projector

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPacked: every name is read as it was written, those that look like a uuid and
// those that nearly do, and a uuid takes 17 bytes.
func TestPacked(t *testing.T) {
	const id, request = "0a6b3c2d-4e5f-4071-8293-a4b5c6d7e8f9", "req-"
	plain := strings.ReplaceAll(id, "-", "")
	for _, name := range []string{id, plain, request + id} {
		if b := appendPacked(nil, name); len(b) != 17 {
			t.Errorf("%q takes %d bytes", name, len(b))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Custom(func(t *rapid.T) string {
			name := []byte(rapid.SampledFrom([]string{id, plain, request + id, request + plain, request + request + id}).Draw(t, "like"))
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				name[rapid.IntRange(0, len(name)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0fAFgG-{}\x00\xff")).Draw(t, "is")
			}
			return string(name[:len(name)-rapid.IntRange(0, 2).Draw(t, "cut")])
		})
		name := rapid.OneOf(near, rapid.String()).Draw(t, "name")
		b := append(appendPacked(nil, name), "rest"...)
		read, skipped := fields{data: b}, fields{data: b}
		if got := read.packed(); got != name || read.bad || string(read.data) != "rest" {
			t.Fatalf("%q is read as %q", name, got)
		}
		if skipped.skipPacked(); skipped.bad || string(skipped.data) != "rest" {
			t.Fatalf("%q is not skipped", name)
		}
	})
}
