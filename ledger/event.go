package ledger

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Event is one fact about the ledger. An event says what is so now, in full:
// folding it needs no rule beyond "make it so", and its meaning never changes
// once it is stored. A change of shape is a new version, which decoding maps
// to the present type.
//
// All that is to be said of a kind of event stands beside its type: how it is
// registered, what it is about, its stored form, and what it does to a State.
type Event interface {
	// Topic is the thing that the event is about: histories, and what may
	// change together, follow from it.
	Topic() Topic

	// kind is what register returned for the type.
	kind() *eventKind
	apply(*State, moment) error
}

// moment is where in the log an event stands.
type moment struct {
	sequence uint64
	time     int64 // Unix nanoseconds
}

// eventCode is an event's stored number: kind * 256 + schema version.
// Codes are never used for anything else again.
type eventCode uint64

// eventKind is what is known of a kind of event from its registration.
type eventKind struct {
	name   string // the type's
	number uint64
	level  uint64 // of features that knows it, as it is written
	encode func(*encoder, Event)
}

// The whole vocabulary of stored events: register fills it in.
var (
	eventKinds    = make(map[uint64]*eventKind)
	eventDecoders = make(map[eventCode]func(*decoder) Event)
)

// register makes a type of event known by its name. Its number, which no other
// kind ever had or will have, and the place of each of its forms stay for ever:
// the first form is version 1. The last one is the one that is written; the
// older ones read what was written before into the present type. A form goes
// over all fields of an event and returns it: the event that it was called on
// is a copy, which so needs no memory of its own.
func register[T Event](number uint64, forms ...func(T, *coder) T) *eventKind {
	return registerAt(1, number, forms...)
}

// registerAt is register for what older releases do not know: a new kind, or a
// new form of one. Replicas that are upgraded one after the other write it when
// all of them know the level, which Level must have reached.
func registerAt[T Event](level, number uint64, forms ...func(T, *coder) T) *eventKind {
	kind := &eventKind{name: reflect.TypeFor[T]().Name(), number: number, level: level}
	if level > Level {
		panic(fmt.Sprintf("ledger: the event %s is of level %d, and Level is %d", kind.name, level, Level))
	}
	if other, taken := eventKinds[number]; taken {
		panic(fmt.Sprintf("ledger: the events %s and %s both have number %d", other.name, kind.name, number))
	}
	eventKinds[number] = kind
	for i, form := range forms {
		eventDecoders[codeOf(number, i+1)] = func(d *decoder) Event {
			var none T
			d.form.event = kind.name
			return form(none, &d.form)
		}
	}
	code, newest := codeOf(number, len(forms)), forms[len(forms)-1]
	kind.encode = func(e *encoder, event Event) {
		e.array(2)
		e.uint(uint64(code))
		newest(event.(T), &e.form)
	}
	return kind
}

func codeOf(number uint64, version int) eventCode { return eventCode(number<<8 | uint64(version)) }

// encodeEvent writes [code, fields...].
func encodeEvent(e *encoder, event Event) { event.kind().encode(e, event) }

func decodeEvent(d *decoder) Event {
	d.exactly(2, "event")
	code := eventCode(d.uint())
	if d.err != nil {
		return nil
	}
	decode, ok := eventDecoders[code]
	if !ok {
		d.fail("event kind %d version %d is unknown: the log was written by a newer Allot", code>>8, code&0xff)
		return nil
	}
	return decode(d)
}

// LevelOf is the lowest level of features that knows all of some events.
func LevelOf(events []Event) (level uint64) {
	for _, event := range events {
		level = max(level, event.kind().level)
	}
	return level
}

// KindOf names an event, as it is printed: by its type.
func KindOf(event Event) string { return event.kind().name }

// EventKinds are the names of all kinds of events, in the order of their numbers.
func EventKinds() []string {
	names := make([]string, 0, len(eventKinds))
	for _, number := range slices.Sorted(maps.Keys(eventKinds)) {
		names = append(names, eventKinds[number].name)
	}
	return names
}

// EventLine is an event as it is printed and answered: in JSON, with its name.
type EventLine struct {
	Kind string `json:"kind"`
	Data any    `json:"data"`
}

// EventLines names events.
func EventLines(events []Event) []EventLine {
	lines := make([]EventLine, len(events))
	for i, event := range events {
		lines[i] = EventLine{Kind: KindOf(event), Data: event}
	}
	return lines
}
