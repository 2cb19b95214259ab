package ledger

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// renamed is an event whose first version did not name who renamed.
type renamed struct{ Name, By string }

const renamedNumber = 1 << 20

func (renamed) apply(*State, moment) error { return nil }

func (ev *renamed) form(c *coder) { c.eventFields(2).text(&ev.Name).text(&ev.By) }

func (ev *renamed) formV1(c *coder) {
	c.eventFields(1).text(&ev.Name)
	ev.By = "unknown"
}

// registerRenamed makes the event known until the test ends (the vocabulary is compared
// elsewhere), as a release would whose newest level is the one after Level.
func registerRenamed(t *testing.T) {
	t.Helper()
	registerAt(Level+1, renamedNumber, (*renamed).formV1, (*renamed).form)
	t.Cleanup(func() {
		delete(eventKinds, renamedNumber)
		delete(eventDecoders, codeOf(renamedNumber, 1))
		delete(eventDecoders, codeOf(renamedNumber, 2))
	})
}

// TestSecondLevel: events of a new level are written once all known replicas reach it,
// and a release that does not know it refuses the term in which they come.
func TestSecondLevel(t *testing.T) {
	for _, kind := range eventKinds {
		if kind.level > Level {
			t.Errorf("%s is of level %d, and Level is %d", kind.name, kind.level, Level)
		}
	}
	registerRenamed(t)
	level := LevelOf([]Event{TraitCreated{}, renamed{}})
	if level != Level+1 || LevelOf([]Event{TraitCreated{}}) != 1 {
		t.Errorf("the event is of level %d", level)
	}
	s := NewState()
	if !s.Reaches(level) {
		t.Error("a server that is alone does not write its own events")
	}
	term := TermBegan{Term{Number: 1, Leader: "a", Instance: UUID{1}, Level: Level}}
	if err := term.apply(s, moment{}); err != nil || s.Reaches(level) || !s.Reaches(Level) {
		t.Errorf("in a term of level %d, %v: level %d is reached: %v", Level, err, level, s.Reaches(level))
	}
	term.Number, term.Level = 2, level
	if err := term.apply(s, moment{}); !errors.Is(err, ErrLevel) {
		t.Errorf("a term of level %d: %v", level, err)
	}
}

// TestOlderVersions reads an event that was stored before its form was changed.
func TestOlderVersions(t *testing.T) {
	registerRenamed(t)
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

// TestHaveTwice: a class twice on one provider is found, wherever the two stand and however many there are.
func TestHaveTwice(t *testing.T) {
	for _, n := range []int{1, 2, 16, 17, 5000} {
		list := make([]Allocation, n)
		for i := range list {
			list[n-1-i].Provider = UUID{0: 7, 1: byte(i >> 8), 2: byte(i), 15: 1}
		}
		if haveTwice(list) || !haveTwice(append(list, list[0])) {
			t.Errorf("%d allocations, and one of them again", n)
		}
	}
}

// TestPackedConsumer unpacks what was packed, in all ranges of the fields and in
// whatever order allocations stand.
func TestPackedConsumer(t *testing.T) {
	providers := []UUID{{}, {1}, {15: 1}, {0xff, 15: 0xff}}
	times := rapid.OneOf(rapid.Int64(), rapid.Just(int64(math.MinInt64)), rapid.Just(int64(math.MaxInt64)))
	allocation := rapid.Custom(func(rt *rapid.T) Allocation {
		return Allocation{
			Provider: rapid.SampledFrom(providers).Draw(rt, "provider"),
			Class:    ClassID(rapid.Uint32().Draw(rt, "class")),
			Amount:   rapid.Int64().Draw(rt, "amount"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		c := &Consumer{
			UUID:       rapid.SampledFrom(providers).Draw(rt, "uuid"),
			Generation: rapid.Uint64().Draw(rt, "generation"),
			CreatedAt:  times.Draw(rt, "created"), UpdatedAt: times.Draw(rt, "updated"),
			ReservedUntil: times.Draw(rt, "reserved until"),
			Owner:         &Owner{Project: "p"},
			Allocations:   rapid.SliceOfN(allocation, 1, 64).Draw(rt, "allocations"),
		}
		if got := c.packed().consumer(); !reflect.DeepEqual(got, c) || got.Owner != c.Owner {
			rt.Fatalf("%+v became %+v", c, got)
		}
	})
}
