package ledger

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Event is one fact about the ledger. An event states the new values in full:
// folding it needs no rule, and its meaning never changes once it is stored. A
// change of its shape is a new version, which decoding maps to the present type.
//
// Everything about a kind of event but its number stands beside its type: its topic,
// if it is about one entity, its stored form, and its effect on a State.
type Event interface {
	apply(*State, moment) error
}

// moment is the place of an event in the log.
type moment struct {
	sequence uint64
	time     int64 // Unix nanoseconds
}

// eventCode is an event's stored number: kind * 256 + schema version. A code is
// never used for anything else again.
type eventCode uint64

type eventKind struct {
	name   string // the name of its type
	level  uint64 // the lowest level of features that knows its newest form
	encode func(*encoder, Event)
}

// The vocabulary of all stored events. register fills it in.
var (
	eventKinds    = make(map[uint64]*eventKind)
	eventTypes    = make(map[reflect.Type]*eventKind)
	eventDecoders = make(map[eventCode]func(*decoder) Event)
)

// register makes a type of event known by its name. No other kind may ever have
// its number, and the places of its forms never change: the first form is version
// 1. The last form is written; the older forms read old bytes into the present
// type. A form reads or writes all fields of an event.
func register[T Event](number uint64, forms ...func(*T, *coder)) *eventKind {
	return registerAt(1, number, forms...)
}

// registerAt is register for a kind, or a form of a kind, that older releases do
// not know. Replicas that are upgraded one after the other write it only once all
// of them know the level. Level must have reached that level, which a test checks.
func registerAt[T Event](level, number uint64, forms ...func(*T, *coder)) *eventKind {
	kind := &eventKind{name: reflect.TypeFor[T]().Name(), level: level}
	if other, taken := eventKinds[number]; taken {
		panic(fmt.Sprintf("ledger: the events %s and %s both have number %d", other.name, kind.name, number))
	}
	eventKinds[number], eventTypes[reflect.TypeFor[T]()] = kind, kind
	spare := sync.Pool{New: func() any { return new(T) }}
	// visit has a form work on a copy of an event, for which it needs no memory of its own.
	visit := func(event T, form func(*T, *coder), c *coder) T {
		copied := spare.Get().(*T)
		defer spare.Put(copied)
		*copied = event
		form(copied, c)
		return *copied
	}
	for i, form := range forms {
		eventDecoders[codeOf(number, i+1)] = func(d *decoder) Event {
			d.form.event = kind.name
			return visit(*new(T), form, &d.form)
		}
	}
	code, newest := codeOf(number, len(forms)), forms[len(forms)-1]
	kind.encode = func(e *encoder, event Event) {
		e.array(2)
		e.uint(uint64(code))
		visit(event.(T), newest, &e.form)
	}
	return kind
}

func codeOf(number uint64, version int) eventCode { return eventCode(number<<8 | uint64(version)) }

func kindOf(event Event) *eventKind { return eventTypes[reflect.TypeOf(event)] }

// encodeEvent writes [code, fields...].
func encodeEvent(e *encoder, event Event) { kindOf(event).encode(e, event) }

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

// LevelOf returns the lowest level of features that knows all of the events.
func LevelOf(events []Event) (level uint64) {
	for _, event := range events {
		level = max(level, kindOf(event).level)
	}
	return level
}

// KindOf returns the name under which an event is printed: its type.
func KindOf(event Event) string { return kindOf(event).name }

// EventKinds returns the names of all kinds of events, in the order of their
// numbers.
func EventKinds() []string {
	names := make([]string, 0, len(eventKinds))
	for _, number := range slices.Sorted(maps.Keys(eventKinds)) {
		names = append(names, eventKinds[number].name)
	}
	return names
}

// EventLine is an event in the form in which it is printed and answered: its
// name, and its fields in JSON.
type EventLine struct {
	Kind string `json:"kind"`
	Data any    `json:"data"`
}

// EventLines returns the events as EventLines.
func EventLines(events []Event) []EventLine {
	lines := make([]EventLine, len(events))
	for i, event := range events {
		lines[i] = EventLine{Kind: KindOf(event), Data: event}
	}
	return lines
}

// EncodeEvents encodes events without a record. Replicas send each other the
// events of dry runs in this form.
func EncodeEvents(events []Event) ([]byte, error) {
	e := newEncoder()
	e.form.events(&events)
	return e.buf.Bytes(), e.err
}

// DecodeEvents reads what EncodeEvents wrote.
func DecodeEvents(data []byte) (events []Event, err error) {
	d := newDecoder(data)
	d.form.events(&events)
	return events, d.end()
}

// Of is the kind of entity that an event is about.
type Of byte

// The kinds of entities that events are about.
const (
	// OfNothing stands for the ledger as a whole, its names, or several entities.
	OfNothing Of = iota
	OfConsumer
	OfProvider
	OfNode
	OfNodeAllocation
	OfChassis

	// Ofs is the number of kinds.
	Ofs = iota
)

// Topic is the one entity that an event is about: the one that it changes, and
// whose history has it.
type Topic struct {
	Of Of
	ID UUID
}

// TopicOf returns the entity that an event is about. It decides whose history has the
// event, and what may change together.
func TopicOf(event Event) (about Topic) {
	if one, is := event.(interface{ topic() Topic }); is {
		about = one.topic()
	}
	return about
}

// ConsumersChanged returns the consumers that events change, each as often as it
// is changed.
func ConsumersChanged(events []Event) (ids []UUID) {
	for _, event := range events {
		if topic := TopicOf(event); topic.Of == OfConsumer {
			ids = append(ids, topic.ID)
		}
	}
	return ids
}
