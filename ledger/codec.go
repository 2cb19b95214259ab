package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// ErrCorrupt reports malformed bytes: a damaged commit, snapshot or export.
// Decoders return it; they never panic, and never allocate more than the input
// could hold.
var ErrCorrupt = errors.New("ledger: corrupt data")

// encoder writes the ledger's stored forms: msgpack arrays of small integers,
// strings and 16-byte ids, in one canonical way. Writing to memory cannot fail,
// so an error would be a bug, and the first one is kept for the end.
type encoder struct {
	buf  bytes.Buffer
	mp   *msgpack.Encoder
	form coder // writes to this encoder
	err  error
}

func newEncoder() *encoder {
	e := &encoder{}
	e.mp = msgpack.NewEncoder(&e.buf)
	e.form.e = e
	return e
}

func (e *encoder) reset() {
	e.buf.Reset()
	e.err = nil
}

func (e *encoder) keep(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) array(n int)     { e.keep(e.mp.EncodeArrayLen(n)) }
func (e *encoder) uint(n uint64)   { e.keep(e.mp.EncodeUint(n)) }
func (e *encoder) int(n int64)     { e.keep(e.mp.EncodeInt(n)) }
func (e *encoder) float(f float64) { e.keep(e.mp.EncodeFloat64(f)) }
func (e *encoder) string(s string) { e.keep(e.mp.EncodeString(s)) }
func (e *encoder) digest(d Digest) { e.bytes(d[:]) }
func (e *encoder) bool(b bool)     { e.keep(e.mp.EncodeBool(b)) }
func (e *encoder) null()           { e.keep(e.mp.EncodeNil()) }
func (e *encoder) class(c ClassID) { e.uint(uint64(c)) }
func (e *encoder) index(i int)     { e.uint(uint64(i)) }

func (e *encoder) document(doc Document) { e.string(string(doc)) }

// bytes writes a byte string, never null. It bypasses the library's writer,
// through which each id would escape to the heap.
func (e *encoder) bytes(b []byte) {
	e.keep(e.mp.EncodeBytesLen(len(b)))
	e.buf.Write(b)
}

// extension writes an extension, whose type is a spelling. As bytes, it bypasses the
// library's writer.
func (e *encoder) extension(as Spelling, data []byte) {
	e.keep(e.mp.EncodeExtHeader(int8(as), len(data)))
	e.buf.Write(data)
}

// decoder reads what encoder wrote. It keeps the first error; after that every
// read returns a zero value.
type decoder struct {
	data []byte
	in   *bytes.Reader // reads data
	mp   *msgpack.Decoder
	form coder // reads from this decoder
	err  error
}

func newDecoder(data []byte) *decoder {
	in := bytes.NewReader(data)
	d := &decoder{data: data, in: in, mp: msgpack.NewDecoder(in)}
	d.form.d = d
	return d
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
}

func (d *decoder) keep(err error) {
	if err != nil {
		d.fail("at byte %d: %v", d.position(), err)
	}
}

// position returns how many bytes were read.
func (d *decoder) position() int { return int(d.in.Size()) - d.in.Len() }

// array reads an array header. Every element takes at least one byte, so a length
// beyond the rest of the input is false, and is refused before anything is
// allocated for it.
func (d *decoder) array() int {
	n := read(d, (*msgpack.Decoder).DecodeArrayLen)
	if n < 0 || n > d.in.Len() || n > maxDecodeElements {
		d.fail("array of %d elements in %d bytes", n, d.in.Len())
	}
	if d.err != nil {
		return 0
	}
	return n
}

// exactly reads an array header that must announce n elements.
func (d *decoder) exactly(n int, what string) {
	if got := d.array(); got != n {
		d.fail("%s has %d fields, not %d", what, got, n)
	}
}

// read reads one of msgpack's own values.
func read[T any](d *decoder, decode func(*msgpack.Decoder) (T, error)) (v T) {
	if d.err == nil {
		var err error
		v, err = decode(d.mp)
		d.keep(err)
	}
	return v
}

func (d *decoder) uint() uint64   { return read(d, (*msgpack.Decoder).DecodeUint64) }
func (d *decoder) int() int64     { return read(d, (*msgpack.Decoder).DecodeInt64) }
func (d *decoder) bool() bool     { return read(d, (*msgpack.Decoder).DecodeBool) }
func (d *decoder) class() ClassID { return ClassID(d.uint()) }
func (d *decoder) index() int     { return int(d.uint() & 0x7fffffff) }

// document reads a document, which must be in its canonical form, so that it
// encodes to the same bytes again.
func (d *decoder) document() Document {
	text := d.bytes()
	if d.err != nil || len(text) == 0 {
		return ""
	}
	doc, err := ParseDocument(text)
	if err != nil || string(doc) != string(text) {
		d.fail("document of %d bytes: %v", len(text), err)
	}
	return doc
}

func (d *decoder) float() float64 {
	f := read(d, (*msgpack.Decoder).DecodeFloat64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.fail("float %v", f)
	}
	return f
}

func (d *decoder) string() string { return string(d.bytes()) }

// bytes reads a string or binary, which is a part of the input.
func (d *decoder) bytes() []byte {
	n := read(d, (*msgpack.Decoder).DecodeBytesLen)
	return d.take(max(n, 0)) // null is nothing
}

// take reads the next n bytes, after checking that they are there. The result is a part
// of the input.
func (d *decoder) take(n int) []byte {
	if n > d.in.Len() {
		d.fail("string of %d bytes in %d bytes", n, d.in.Len())
	}
	if d.err != nil {
		return nil
	}
	begin := d.position()
	_, err := d.in.Seek(int64(n), io.SeekCurrent)
	d.keep(err)
	return d.data[begin : begin+n]
}

func (d *decoder) extension() (as Spelling, data []byte) {
	if d.err != nil {
		return 0, nil
	}
	kind, n, err := d.mp.DecodeExtHeader()
	d.keep(err)
	return Spelling(kind), d.take(n)
}

func (d *decoder) fixed(out []byte, what string) {
	b := d.bytes()
	if d.err == nil && len(b) != len(out) {
		d.fail("%s of %d bytes, not %d", what, len(b), len(out))
		return
	}
	copy(out, b)
}

func (d *decoder) digest() (g Digest) {
	d.fixed(g[:], "digest")
	return g
}

// next returns the first byte of the next value, which stays to be read.
func (d *decoder) next() (code byte, ok bool) {
	code = read(d, (*msgpack.Decoder).PeekCode)
	return code, d.err == nil
}

// null reports whether the next value is nil, and reads it if so.
func (d *decoder) null() bool {
	code, ok := d.next()
	if !ok || code != msgpcode.Nil {
		return false
	}
	d.keep(d.mp.DecodeNil())
	return true
}

// smallNumberNext reports whether the next value is one of 0 to 127.
func (d *decoder) smallNumberNext() bool {
	code, ok := d.next()
	return ok && code <= msgpcode.PosFixedNumHigh
}

// uuidNext reports whether the next value is an id: bytes, or a number that refers back.
func (d *decoder) uuidNext() bool {
	code, ok := d.next()
	return !ok || code <= msgpcode.PosFixedNumHigh || msgpcode.IsBin(code)
}

// extensionNext reports whether the next value is an extension of 1 or 16 bytes.
func (d *decoder) extensionNext() bool {
	code, ok := d.next()
	return ok && (code == msgpcode.FixExt1 || code == msgpcode.FixExt16)
}

func (d *decoder) end() error {
	if d.err == nil && d.in.Len() > 0 {
		d.fail("%d bytes after the end", d.in.Len())
	}
	return d.err
}
