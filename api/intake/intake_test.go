package intake_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/commands/fair"
)

// documents are those with the most memory for their bytes, with n values each.
func documents(n int) map[string]string {
	list := func(element string) string { return "[" + strings.Repeat(element+",", n) + "1]" }
	return map[string]string{
		"numbers": list("1"), "strings": list(`""`), "arrays": list("[]"), "objects": list("{}"), "nulls": list("null"),
		"members": `{"a":` + list(`{"a":1}`) + "}", "with spaces": list(" 1 "),
		"one string": `"` + strings.Repeat("a", n) + `"`, "escaped": `"` + strings.Repeat(`\"`, n) + `"`,
	}
}

// deep are documents that are refused for their depth.
func deep(n int) map[string]string {
	return map[string]string{
		"nested": strings.Repeat("[", n) + strings.Repeat("]", n), "not closed": strings.Repeat("[1,", n),
		"not quoted": strings.Repeat(`["a,b",`, n),
	}
}

// TestWeight: no decoded document takes more memory than its weight.
func TestWeight(t *testing.T) {
	for name, document := range documents(5000) {
		text := []byte(document)
		var before, after runtime.MemStats
		var decoded any
		runtime.GC()
		runtime.ReadMemStats(&before)
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		_ = dec.Decode(&decoded) // some are not JSON
		runtime.GC()
		runtime.ReadMemStats(&after)
		const pages = 16 << 10 // the allocator's rounding
		if taken, weight := int64(after.HeapAlloc)-int64(before.HeapAlloc), intake.Weigh(text); taken > weight+pages {
			t.Errorf("%s: weighs %d, takes %d", name, weight, taken)
		}
		runtime.KeepAlive(decoded)
	}
}

// TestRead: Read returns what was sent, however it arrives, and refuses too heavy
// bodies long before they have arrived.
func TestRead(t *testing.T) {
	t.Parallel()
	read := func(from io.Reader, announced, most int64) (string, error) {
		text, err := intake.Read(fair.NewPool().Lease("x"), from, announced, most)
		return string(text), err
	}
	arrivals := func(text string) []io.Reader {
		return []io.Reader{
			strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)),
			iotest.DataErrReader(strings.NewReader(text)),
		}
	}
	for name, text := range documents(3000) {
		for _, from := range arrivals(text) {
			if got, err := read(from, -1, int64(len(text))); err != nil || got != text {
				t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(text), err)
			}
		}
		if _, err := read(strings.NewReader(text), -1, int64(len(text)-1)); !errors.Is(err, intake.ErrTooLarge) {
			t.Errorf("%s with a byte too many: %v", name, err)
		}
	}
	for name, text := range deep(3000) {
		for _, from := range arrivals(text) {
			if _, err := read(from, -1, int64(len(text))); !errors.Is(err, document.ErrTooDeep) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	unsent, endless := &counter{from: repeat("1,")}, &counter{from: repeat("1,")}
	if _, err := read(unsent, 1<<20, 1<<19); !errors.Is(err, intake.ErrTooLarge) || unsent.n > 0 {
		t.Errorf("%d bytes were read of a body that is announced as too large: %v", unsent.n, err)
	}
	if _, err := read(endless, 1<<20, 1<<30); !errors.Is(err, intake.ErrTooLarge) || endless.n > 2<<20 {
		t.Errorf("%d bytes were read of an endless list: %v", endless.n, err)
	}
}

// TestAnnouncedTakesNothing: bodies that are refused at their beginning leave no
// garbage for a length that they had only announced.
func TestAnnouncedTakesNothing(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		lease := fair.NewPool().Lease("x")
		if _, err := intake.Read(lease, repeat("["), 8<<20, 16<<20); !errors.Is(err, document.ErrTooDeep) {
			t.Fatal(err)
		}
		lease.End()
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 8<<20 {
		t.Errorf("a hundred refused bodies made %d bytes", made)
	}
}

type repeat string

// Read implements io.Reader.
func (r repeat) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = r[i%len(r)]
	}
	return len(b), nil
}

type counter struct {
	from io.Reader
	n    int
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}
