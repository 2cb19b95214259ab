package ledger

import "testing"

// renamed is an event whose first version did not name who renamed.
type renamed struct{ Name, By string }

var renamedKind *eventKind // only while the test runs: the vocabulary is compared elsewhere

const renamedNumber = 1 << 20

func (renamed) kind() *eventKind           { return renamedKind }
func (renamed) Topic() Topic               { return Topic{} }
func (renamed) apply(*State, moment) error { return nil }

func (ev renamed) form(c *coder) renamed {
	c.eventFields(2).text(&ev.Name).text(&ev.By)
	return ev
}

func (ev renamed) formV1(c *coder) renamed {
	c.eventFields(1).text(&ev.Name)
	ev.By = "unknown"
	return ev
}

// TestOlderVersions reads an event that was stored before its form was changed.
func TestOlderVersions(t *testing.T) {
	renamedKind = register(renamedNumber, renamed.formV1, renamed.form)
	t.Cleanup(func() {
		delete(eventKinds, renamedNumber)
		delete(eventDecoders, codeOf(renamedNumber, 1))
		delete(eventDecoders, codeOf(renamedNumber, 2))
	})
	e := newEncoder()
	e.array(2)
	e.uint(uint64(codeOf(renamedNumber, 1)))
	e.array(1)
	e.string("a")
	encodeEvent(e, renamed{"b", "admin"})
	d := newDecoder(e.buf.Bytes())
	first, second := decodeEvent(d), decodeEvent(d)
	if err := d.end(); err != nil || first != (renamed{"a", "unknown"}) || second != (renamed{"b", "admin"}) {
		t.Errorf("read %+v and %+v, %v", first, second, err)
	}
	e.reset()
	e.array(2)
	e.uint(uint64(codeOf(renamedNumber, 3)))
	e.array(0)
	d = newDecoder(e.buf.Bytes())
	if event := decodeEvent(d); event != nil || d.err == nil {
		t.Errorf("a version from the future is read as %+v", event)
	}
}
