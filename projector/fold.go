package projector

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/store"
)

// writer writes one commit into a batch.
type writer struct {
	batch   *store.Batch
	p       *models
	commit  *ledger.Commit
	changes *ledger.Changes
	grown   *proof.Tree // with the commit's records
	touched map[Subject][]uint32
	err     error
}

func (w *writer) set(key, value []byte) {
	if w.err == nil {
		w.err = w.batch.Set(key, value, nil)
	}
}

func (w *writer) delete(key []byte) {
	if w.err == nil {
		w.err = w.batch.Delete(key, nil)
	}
}

// idKey builds a key in the scratch memory. The key is valid until the next call.
func (w *writer) idKey(table byte, id ledger.UUID) []byte {
	w.p.key = append(append(w.p.key[:0], table), id[:]...)
	return w.p.key
}

func (w *writer) version(key []byte) []byte {
	w.p.key = appendVersion(key, w.commit.Sequence)
	return w.p.key
}

func (w *writer) textKey(table byte, text string) []byte {
	w.p.key = appendText(append(w.p.key[:0], table), text)
	return w.p.key
}

// keep keeps a value's buffer for the next value.
func (w *writer) keep(value []byte) []byte {
	w.p.value = value
	return value
}

func (w *writer) scratch() []byte { return w.p.value[:0] }

func (w *writer) all() error {
	w.touched = touches(w.commit, w.changes, inHistory)
	w.providers()
	records := w.recordsOfConsumers()
	for i, c := range w.changes.Consumers {
		w.consumer(records[i], c.Before, c.After)
	}
	for _, c := range w.changes.Usages {
		w.usage(c)
	}
	for _, c := range w.changes.Parents {
		w.set(w.version(w.textKey(tableParent, c.Project)), w.keep(append(w.scratch(), c.After...)))
	}
	put(w, w.changes.Traits, func(t *ledger.Trait) []byte { return w.textKey(tableTrait, t.Name) }, appendTrait)
	put(w, w.changes.Limits, func(l *ledger.Limit) []byte { return limitKey(l.LimitKey) }, appendLimit)
	put(w, w.changes.Preferences, func(p *ledger.Preference) []byte { return w.textKey(tablePreference, p.Name) },
		appendPreference)
	put(w, w.changes.Topologies, func(t *ledger.Topology) []byte { return w.textKey(tableTopology, t.Name) },
		appendTopology)
	w.aggregateLimits()
	for _, c := range w.changes.Classes {
		w.p.key = append(w.p.key[:0], tableClasses)
		w.set(w.version(w.p.key), w.keep(appendClasses(w.scratch(), c.After)))
	}
	for _, c := range w.changes.Nodes {
		step(w, nodes, c)
	}
	for _, c := range w.changes.NodeAllocations {
		w.nodeAllocation(c)
		w.wholeNode(c)
	}
	for _, c := range w.changes.Chassis {
		step(w, allChassis, c)
	}
	for i := range w.commit.Records {
		w.command(i, &w.commit.Records[i])
		w.consumptionRoots(i, &w.commit.Records[i])
	}
	w.history()
	w.tree()
	w.position()
	return w.err
}

// put writes a version of each thing that has changed; an empty one if it is gone.
func put[T any](w *writer, changes []ledger.Change[T], key func(*T) []byte, value func([]byte, *T) []byte) {
	for _, c := range changes {
		if c.After == nil {
			w.set(w.version(key(c.Before)), nil)
		} else {
			w.set(w.version(key(c.After)), w.keep(value(w.scratch(), c.After)))
		}
	}
}

// providers writes the changed half of each provider. Allocations change only the
// state, however many traits the description has.
func (w *writer) providers() {
	last := make(map[ledger.UUID]ledger.ProviderChange)
	for _, c := range w.changes.Providers {
		w.description(c.Before, c.After)
		w.capacity(c)
		if c.After == nil {
			last[c.Before.UUID] = c
		} else {
			last[c.After.UUID] = c
		}
	}
	for _, c := range last {
		w.providerState(c)
	}
}

func (w *writer) description(before, after *ledger.Provider) {
	switch {
	case after == nil:
		w.set(w.version(w.idKey(tableProvider, before.UUID)), nil)
		w.set(w.version(w.textKey(tableName, before.Name)), nil)
	case before == nil || !sameDescription(before, after):
		if before != nil && before.Name != after.Name {
			w.set(w.version(w.textKey(tableName, before.Name)), nil)
		}
		if before == nil || before.Name != after.Name {
			w.set(w.version(w.textKey(tableName, after.Name)), after.UUID[:])
		}
		w.set(w.version(w.idKey(tableProvider, after.UUID)), w.keep(appendProvider(w.scratch(), after)))
	}
}

// providerState writes the fields that allocations change, and which records of
// the commit touched the provider. Everything that touches a provider makes a
// version of its state, so the versions are its history, too.
func (w *writer) providerState(c ledger.ProviderChange) {
	id, amounts := w.amountsOf(c, func(inv ledger.Inventory) int64 { return inv.Used })
	before := w.sums(tableProviderState, id, amounts)
	key := w.version(w.idKey(tableProviderState, id))
	if c.After == nil {
		w.set(key, w.keep(before.appendTo(binary.AppendVarint(w.scratch(), providerEnd))))
		return
	}
	subject := Subject{Kind: ProviderHistory, ID: id}
	w.set(key, w.keep(appendProviderState(w.scratch(), c.After, before, w.touched[subject])))
	delete(w.touched, subject)
}

// sameDescription compares the fields in tableProvider. Shared lists are equal
// without a comparison of their elements, because edits share the lists that they
// do not change.
func sameDescription(a, b *ledger.Provider) bool {
	return a.Name == b.Name && a.Parent == b.Parent && a.Root == b.Root &&
		(ledger.SameList(a.Traits, b.Traits) || slices.Equal(a.Traits, b.Traits)) &&
		(ledger.SameList(a.Aggregates, b.Aggregates) || slices.Equal(a.Aggregates, b.Aggregates)) &&
		(ledger.SameList(a.Spelt, b.Spelt) || slices.Equal(a.Spelt, b.Spelt)) &&
		slices.Equal(a.Counters, b.Counters) && slices.Equal(a.Draws, b.Draws)
}

// recordsOfConsumers finds the record of each change in changes.Consumers, which
// has one change per event about allocations.
func (w *writer) recordsOfConsumers() []int {
	records := make([]int, 0, len(w.changes.Consumers))
	for index := range w.commit.Records {
		for _, event := range w.commit.Records[index].Events {
			if ledger.TopicOf(event).Of == ledger.OfConsumer {
				records = append(records, index)
			}
		}
	}
	return records
}

func (w *writer) consumer(record int, before, after *ledger.Consumer) {
	if after == nil {
		w.set(w.version(w.idKey(tableConsumer, before.UUID)), w.keep(appendEnd(w.scratch(), record)))
	} else {
		w.set(w.version(w.idKey(tableConsumer, after.UUID)), w.keep(appendConsumer(w.scratch(), record, after)))
	}
	w.reservation(before, after)
	w.holdings(before, after)
}

// holdings updates the lists of the present and former holders of a provider. It
// walks through the providers before and after side by side.
func (w *writer) holdings(before, after *ledger.Consumer) {
	w.p.left = appendProviders(w.p.left[:0], before)
	w.p.taken = appendProviders(w.p.taken[:0], after)
	left, taken := w.p.left, w.p.taken
	for len(left) > 0 || len(taken) > 0 {
		switch {
		case len(left) > 0 && len(taken) > 0 && left[0] == taken[0]:
			left, taken = left[1:], taken[1:]
		case len(left) == 0 || len(taken) > 0 && taken[0].Before(left[0]):
			w.set(append(w.idKey(tableHolding, taken[0]), after.UUID[:]...), nil)
			taken = taken[1:]
		default:
			w.delete(append(w.idKey(tableHolding, left[0]), before.UUID[:]...))
			w.set(append(w.version(w.idKey(tableHeld, left[0])), before.UUID[:]...), nil)
			left = left[1:]
		}
	}
}

// appendProviders lists the providers of which a consumer (which may be nil)
// holds something, each once, in UUID order.
func appendProviders(list []ledger.UUID, c *ledger.Consumer) []ledger.UUID {
	if c == nil {
		return list
	}
	eachProvider(c, func(id ledger.UUID) { list = append(list, id) })
	slices.SortFunc(list, ledger.UUID.Compare)
	return slices.Compact(list)
}

// eachProvider calls yield for each provider of which a consumer holds something;
// several times if its allocations do not stand side by side.
func eachProvider(c *ledger.Consumer, yield func(ledger.UUID)) {
	for i, a := range c.Allocations {
		if i == 0 || c.Allocations[i-1].Provider != a.Provider {
			yield(a.Provider)
		}
	}
}

// reservation updates the list of reservations by their end.
func (w *writer) reservation(before, after *ledger.Consumer) {
	if before != nil && before.ReservedUntil > 0 && (after == nil || after.ReservedUntil != before.ReservedUntil) {
		w.delete(reservationKey(before))
	}
	if after != nil && after.ReservedUntil > 0 {
		w.set(reservationKey(after), nil)
	}
}

func reservationKey(c *ledger.Consumer) []byte {
	key := binary.BigEndian.AppendUint64([]byte{tableReservation}, uint64(c.ReservedUntil))
	return append(key, c.UUID[:]...)
}

// Reservation is a consumer whose allocations end unless they are confirmed.
type Reservation struct {
	Consumer ledger.UUID
	Until    int64 // Unix nanoseconds
}

// Reservations lists the present reservations, those that end first first, at
// most limit of them.
func (p *Projector) Reservations(limit int) ([]Reservation, error) {
	it, err := p.models.Load().Iterate([]byte{tableReservation}, []byte{tableReservation + 1})
	if err != nil {
		return nil, err
	}
	var list []Reservation
	for ok := it.First(); ok && len(list) < limit; ok = it.Next() {
		r := Reservation{Until: int64(binary.BigEndian.Uint64(it.Key()[1:]))}
		copy(r.Consumer[:], it.Key()[9:])
		list = append(list, r)
	}
	return list, it.Finish(nil)
}

func holds(c *ledger.Consumer, provider ledger.UUID) bool {
	return c != nil && slices.ContainsFunc(c.Allocations, func(a ledger.Allocation) bool { return a.Provider == provider })
}

func (w *writer) usage(c ledger.Change[ledger.Usage]) {
	after := c.After
	if after == nil {
		after = &ledger.Usage{Owner: c.Before.Owner}
	}
	held := w.become(w.usageKey(after.Owner), after.Amounts)
	w.set(w.version(w.p.key), w.keep(appendUsage(w.scratch(), after.Consumers, held)))
}

func (w *writer) usageKey(o *ledger.Owner) []byte {
	w.p.key = appendText(appendText(w.textKey(tableUsage, o.Project), o.User), o.Type)
	return w.p.key
}

func (w *writer) command(index int, r *ledger.Record) {
	w.p.commands.add(r.CommandID, time.Unix(0, r.Time))
	value := binary.AppendUvarint(w.scratch(), w.commit.Sequence)
	value = binary.AppendUvarint(value, uint64(index))
	w.set(w.idKey(tableCommand, r.CommandID), w.keep(append(value, r.Fingerprint[:]...)))
}

func (w *writer) position() {
	w.p.key = binary.BigEndian.AppendUint64(append(w.p.key[:0], tableCommit), w.commit.Sequence)
	w.set(w.p.key, w.keep(appendCommit(w.scratch(), w.commit.Digest, w.commit.Records, w.grown.Size())))
	w.p.key = append(w.p.key[:0], tableCheckpoint)
	w.set(w.p.key, w.keep(appendCheckpoint(w.scratch(), w.commit.Head(), w.grown)))
}
