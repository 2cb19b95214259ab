package ledger

// Event is one fact about the ledger. An event says what is so now, in full:
// folding it needs no rule beyond "make it so", and its meaning never changes
// once it is stored. A change of shape is a new version, which decoding maps
// to the present type.
type Event interface {
	// EventKind names the event, as it is printed.
	EventKind() string
	// Topic is the thing that the event is about: histories, and what may
	// change together, follow from it.
	Topic() Topic

	code() eventCode
	encode(*encoder)
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

const (
	codeLedgerCreated               eventCode = 1<<8 | 1
	codeStandardNamesAdded          eventCode = 2<<8 | 1
	codeProviderCreated             eventCode = 10<<8 | 1
	codeProviderRenamed             eventCode = 11<<8 | 1
	codeProviderReparented          eventCode = 12<<8 | 1
	codeProviderDeleted             eventCode = 13<<8 | 1
	codeProviderGenerationsAdvanced eventCode = 14<<8 | 1
	codeInventoriesReplaced         eventCode = 20<<8 | 1
	codeInventorySet                eventCode = 21<<8 | 1
	codeInventoryDeleted            eventCode = 22<<8 | 1
	codeTraitCreated                eventCode = 30<<8 | 1
	codeTraitDeleted                eventCode = 31<<8 | 1
	codeProviderTraitsReplaced      eventCode = 32<<8 | 1
	codeProviderAggregatesReplaced  eventCode = 33<<8 | 1
	codeClassCreated                eventCode = 40<<8 | 1
	codeClassRenamed                eventCode = 41<<8 | 1
	codeClassDeleted                eventCode = 42<<8 | 1
	codeAllocationsReplaced         eventCode = 50<<8 | 1
	codeConsumerRemoved             eventCode = 51<<8 | 1
	codeAllocationsReserved         eventCode = 52<<8 | 1
	codeNodeCreated                 eventCode = 60<<8 | 1
	codeNodeDescribed               eventCode = 61<<8 | 1
	codeNodeStateSet                eventCode = 62<<8 | 1
	codeNodeTraitsReplaced          eventCode = 63<<8 | 1
	codeNodeInstanceSet             eventCode = 64<<8 | 1
	codeNodeDeleted                 eventCode = 65<<8 | 1
	codeNodeProvidersSet            eventCode = 66<<8 | 1
	codeAllocationRequested         eventCode = 70<<8 | 1
	codeNodeAllocated               eventCode = 71<<8 | 1
	codeAllocationFailed            eventCode = 72<<8 | 1
	codeNodeAllocationUpdated       eventCode = 73<<8 | 1
	codeNodeAllocationReleased      eventCode = 74<<8 | 1
	codeChassisCreated              eventCode = 80<<8 | 1
	codeChassisDescribed            eventCode = 81<<8 | 1
	codeChassisDeleted              eventCode = 82<<8 | 1
)

// eventDecoders is the whole vocabulary of stored events.
var eventDecoders = map[eventCode]func(*decoder) Event{
	codeLedgerCreated:               decodeLedgerCreated,
	codeStandardNamesAdded:          decodeStandardNamesAdded,
	codeProviderCreated:             decodeProviderCreated,
	codeProviderRenamed:             decodeProviderRenamed,
	codeProviderReparented:          decodeProviderReparented,
	codeProviderDeleted:             decodeProviderDeleted,
	codeProviderGenerationsAdvanced: decodeProviderGenerationsAdvanced,
	codeInventoriesReplaced:         decodeInventoriesReplaced,
	codeInventorySet:                decodeInventorySet,
	codeInventoryDeleted:            decodeInventoryDeleted,
	codeTraitCreated:                decodeTraitCreated,
	codeTraitDeleted:                decodeTraitDeleted,
	codeProviderTraitsReplaced:      decodeProviderTraitsReplaced,
	codeProviderAggregatesReplaced:  decodeProviderAggregatesReplaced,
	codeClassCreated:                decodeClassCreated,
	codeClassRenamed:                decodeClassRenamed,
	codeClassDeleted:                decodeClassDeleted,
	codeAllocationsReplaced:         decodeAllocationsReplaced,
	codeConsumerRemoved:             decodeConsumerRemoved,
	codeAllocationsReserved:         decodeAllocationsReserved,
	codeNodeCreated:                 decodeNodeCreated,
	codeNodeDescribed:               decodeNodeDescribed,
	codeNodeStateSet:                decodeNodeStateSet,
	codeNodeTraitsReplaced:          decodeNodeTraitsReplaced,
	codeNodeInstanceSet:             decodeNodeInstanceSet,
	codeNodeDeleted:                 decodeNodeDeleted,
	codeNodeProvidersSet:            decodeNodeProvidersSet,
	codeAllocationRequested:         decodeAllocationRequested,
	codeNodeAllocated:               decodeNodeAllocated,
	codeAllocationFailed:            decodeAllocationFailed,
	codeNodeAllocationUpdated:       decodeNodeAllocationUpdated,
	codeNodeAllocationReleased:      decodeNodeAllocationReleased,
	codeChassisCreated:              decodeChassisCreated,
	codeChassisDescribed:            decodeChassisDescribed,
	codeChassisDeleted:              decodeChassisDeleted,
}

// encodeEvent writes [code, fields...].
func encodeEvent(e *encoder, event Event) {
	e.array(2)
	e.uint(uint64(event.code()))
	event.encode(e)
}

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

// EventKinds is how many kinds of events there are.
func EventKinds() int {
	kinds := make(map[eventCode]bool)
	for code := range eventDecoders {
		kinds[code>>8] = true
	}
	return len(kinds)
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
		lines[i] = EventLine{Kind: event.EventKind(), Data: event}
	}
	return lines
}
