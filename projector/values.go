package projector

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/store"
)

// ErrDamaged means that read models cannot be read. They can be deleted, because
// the log has everything.
var ErrDamaged = store.ErrDamaged

// Stored values are sequences of varints, length-prefixed strings and 16-byte
// ids.

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendBool(b []byte, yes bool) []byte {
	if yes {
		return append(b, 1)
	}
	return append(b, 0)
}

// fields reads a stored value. After the first fault every read returns zero.
type fields struct {
	data []byte
	bad  bool
}

func (f *fields) uint() uint64 {
	n, size := binary.Uvarint(f.data)
	f.pass(size)
	return n // 0 if there is none
}

func (f *fields) int() int64 {
	n, size := binary.Varint(f.data)
	f.pass(size)
	return n // 0 if there is none
}

// pass advances past a number of n bytes; with n < 1 the number could not be
// read.
func (f *fields) pass(size int) {
	if size <= 0 {
		f.data, f.bad = nil, true
		return
	}
	f.data = f.data[size:]
}

func (f *fields) take(n uint64) []byte {
	if n > uint64(len(f.data)) {
		f.data, f.bad = nil, true
		return nil
	}
	b := f.data[:n]
	f.data = f.data[n:]
	return b
}

func (f *fields) string() string { return string(f.take(f.uint())) }

func (f *fields) strings() []string {
	var list []string
	for i, n := 0, f.count(); i < n; i++ {
		list = append(list, f.string())
	}
	return list
}

func (f *fields) bool() bool {
	b := f.take(1)
	return b != nil && b[0] == 1
}

func (f *fields) uuid() (id ledger.UUID) {
	copy(id[:], f.take(uint64(len(id))))
	return id
}

// count reads the number of elements, each of which takes at least a byte.
func (f *fields) count() int {
	n := f.uint()
	if n > uint64(len(f.data)) {
		f.data, f.bad = nil, true
		return 0
	}
	return int(n)
}

func (f *fields) end(what string) error {
	if f.bad || len(f.data) > 0 {
		return fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	return nil
}

// commitPoint reads the beginning of a commit's value: its digest, the time of its last
// record, and the number of records that the log has with it.
func (f *fields) commitPoint(sequence uint64) (head ledger.Head, at, size int64) {
	head.Sequence, at = sequence, f.int()
	copy(head.Digest[:], f.take(uint64(len(head.Digest))))
	return head, at, int64(f.uint())
}

// appendCommit writes what is kept of a commit, with which the log has a number of
// records: its digest, and its own records without their events. Nothing but the log may
// decide it.
func appendCommit(b []byte, digest ledger.Digest, own []ledger.Record, records int64) []byte {
	last := own[len(own)-1].Time
	b = append(binary.AppendVarint(b, last), digest[:]...)
	b = binary.AppendUvarint(b, uint64(records))
	b = binary.AppendUvarint(b, uint64(len(own)))
	for i := range own {
		b = appendRecord(b, &own[i], last)
	}
	return b
}

// appendRecord writes a record of a commit whose last record has a time.
func appendRecord(b []byte, r *ledger.Record, last int64) []byte {
	b = append(b, r.CommandID[:]...)
	b = binary.AppendVarint(b, last-r.Time)
	b = appendString(b, r.Command)
	b = appendPacked(b, r.Actor)
	b = appendPacked(b, r.RequestID)
	if r.Cause == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, r.Cause.Sequence) // never 0
	return binary.AppendUvarint(b, uint64(r.Cause.Index))
}

func skipRecord(f *fields) {
	f.take(uint64(len(ledger.UUID{})))
	f.int()
	f.take(f.uint()) // command
	f.skipPacked()   // actor
	f.skipPacked()   // request id
	if sequence := f.uint(); sequence > 0 {
		f.uint()
	}
}

// readRecord reads a record of a commit whose last record has a time.
func readRecord(f *fields, last int64) *ledger.Record {
	r := &ledger.Record{
		CommandID: f.uuid(), Time: last - f.int(), Command: f.string(), Actor: f.packed(), RequestID: f.packed(),
	}
	if sequence := f.uint(); sequence > 0 {
		r.Cause = &ledger.Address{Sequence: sequence, Index: int(f.uint())}
	}
	return r
}

func appendProvider(b []byte, p *ledger.Provider) []byte {
	b = appendString(b, p.Name)
	b = append(b, p.Parent[:]...)
	b = append(b, p.Root[:]...)
	b = binary.AppendVarint(b, p.CreatedAt)
	b = appendStrings(b, p.Traits)
	b = binary.AppendUvarint(b, uint64(len(p.Aggregates)))
	for _, id := range p.Aggregates {
		b = append(b, id[:]...)
	}
	b = appendStrings(b, p.Spelt)
	b = binary.AppendUvarint(b, uint64(len(p.Counters)))
	for i := range p.Counters {
		b = binary.AppendVarint(appendString(b, p.Counters[i].Name), p.Counters[i].Total)
	}
	for i := range p.Draws {
		b = appendString(binary.AppendUvarint(b, uint64(p.Draws[i].Class)), p.Draws[i].Counter)
		b = appendString(binary.AppendVarint(b, p.Draws[i].Amount), p.Draws[i].Mode)
	}
	return b
}

func readProvider(data []byte, p *ledger.Provider) error {
	f := fields{data: data}
	p.Name, p.Parent, p.Root, p.CreatedAt = f.string(), f.uuid(), f.uuid(), f.int()
	p.Traits = f.strings()
	for i, n := 0, f.count(); i < n; i++ {
		p.Aggregates = append(p.Aggregates, f.uuid())
	}
	p.Spelt = f.strings()
	for i, n := 0, f.count(); i < n && !f.bad; i++ {
		p.Counters = append(p.Counters, ledger.Counter{Name: f.string(), Total: f.int()})
	}
	for len(f.data) > 0 && !f.bad {
		p.Draws = append(p.Draws, ledger.Draw{
			Class: ledger.ClassID(f.uint()), Counter: f.string(), Amount: f.int(), Mode: f.string(),
		})
	}
	return f.end("provider")
}

// appendProviderState writes a provider's state, with the sums of what was used of it, followed
// by the indexes of the commit's records that touched the provider.
func appendProviderState(b []byte, p *ledger.Provider, before sums, records []uint32) []byte {
	b = binary.AppendVarint(b, p.Generation)
	b = binary.AppendVarint(b, p.UpdatedAt)
	b = binary.AppendUvarint(b, uint64(len(p.Inventories)))
	for i := range p.Inventories {
		inv := &p.Inventories[i]
		b = binary.AppendUvarint(b, uint64(inv.Class))
		for _, n := range [...]int64{
			inv.Total, inv.Reserved, inv.MinUnit, inv.MaxUnit, inv.StepSize, inv.Used, inv.UpdatedAt,
		} {
			b = binary.AppendVarint(b, n)
		}
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(inv.Ratio))
	}
	b = before.appendTo(b)
	for _, index := range records {
		b = binary.AppendUvarint(b, uint64(index))
	}
	return b
}

// providerEnd is written in the place of the generation, which is never negative, of a
// provider that no longer exists.
const providerEnd = -1

func readProviderState(data []byte, p *ledger.Provider) error {
	f := fields{data: data}
	f.providerState(p)
	if f.bad {
		return fmt.Errorf("%w: provider state", ErrDamaged)
	}
	return nil
}

// readProviderRecords reads the indexes after a provider's state.
func readProviderRecords(data []byte) ([]int, error) {
	f := fields{data: data}
	f.providerState(&ledger.Provider{})
	var indexes []int
	for len(f.data) > 0 {
		indexes = append(indexes, int(f.uint()))
	}
	return indexes, f.end("records of a provider")
}

// providerState reads the state of a provider, up to the indexes of records.
func (f *fields) providerState(p *ledger.Provider) sums {
	if p.Generation = f.int(); p.Generation == providerEnd {
		return f.sums()
	}
	p.UpdatedAt = f.int()
	n := f.count()
	p.Inventories = make([]ledger.Inventory, 0, n)
	for i := 0; i < n && !f.bad; i++ {
		inv := ledger.Inventory{
			Class: ledger.ClassID(f.uint()), Total: f.int(), Reserved: f.int(), MinUnit: f.int(),
			MaxUnit: f.int(), StepSize: f.int(), Used: f.int(), UpdatedAt: f.int(),
		}
		if raw := f.take(8); raw != nil {
			inv.Ratio = math.Float64frombits(binary.BigEndian.Uint64(raw))
		}
		p.Inventories = append(p.Inventories, inv)
	}
	return f.sums()
}

// A version that says that its entity no longer exists has no value; that of a
// consumer has the index of the record that ended it, and nothing else. Any other
// value of a consumer is longer. What is left of a usage and of a provider's state are
// integrals, after a number of consumers of 0, and after a generation of providerEnd.

// gone reports whether a version says that its entity no longer exists.
func gone(key, value []byte) bool {
	if len(value) == 0 {
		return true
	}
	switch f := (fields{data: value}); key[0] {
	case tableConsumer:
		return len(value) <= binary.MaxVarintLen32
	case tableUsage:
		return f.int() == 0
	case tableProviderState:
		return f.int() == providerEnd
	}
	return false
}

// appendEnd writes the value of a version that says that a consumer no longer
// exists.
func appendEnd(b []byte, record int) []byte { return binary.AppendUvarint(b, uint64(record)) }

// appendConsumer writes a consumer, after the index of the record that changed
// it. The versions of a consumer are its history, too. Its generation is the
// key's sequence.
func appendConsumer(b []byte, record int, c *ledger.Consumer) []byte {
	b = binary.AppendUvarint(b, uint64(record))
	b = binary.AppendVarint(b, c.UpdatedAt)
	b = binary.AppendVarint(b, c.UpdatedAt-c.CreatedAt)
	b = binary.AppendVarint(b, c.ReservedUntil)
	if c.ReservedUntil != 0 {
		b = appendStrings(b, c.Projects)
	}
	b = appendPacked(b, c.Owner.Project)
	b = appendPacked(b, c.Owner.User)
	b = appendString(b, c.Owner.Type)
	b = binary.AppendUvarint(b, uint64(len(c.Allocations)))
	var provider ledger.UUID
	for _, a := range c.Allocations {
		// A class number of 0 for "same provider" would be ambiguous with VCPU,
		// so a flag comes first.
		if a.Provider == provider {
			b = append(b, 0)
		} else {
			provider = a.Provider
			b = append(append(b, 1), provider[:]...)
		}
		b = binary.AppendUvarint(b, uint64(a.Class))
		b = binary.AppendVarint(b, a.Amount)
	}
	return b
}

func readConsumer(key []byte, sequence uint64, value []byte) (*ledger.Consumer, error) {
	f := fields{data: value}
	f.uint() // index of the record
	c := &ledger.Consumer{Generation: sequence, UpdatedAt: f.int()}
	copy(c.UUID[:], key[1:])
	c.CreatedAt, c.ReservedUntil = c.UpdatedAt-f.int(), f.int()
	if c.ReservedUntil != 0 {
		c.Projects = f.strings()
	}
	c.Owner = &ledger.Owner{Project: f.packed(), User: f.packed(), Type: f.string()}
	var provider ledger.UUID
	n := f.count()
	c.Allocations = make([]ledger.Allocation, 0, n)
	for i := 0; i < n && !f.bad; i++ {
		if flag := f.take(1); flag != nil && flag[0] == 1 {
			provider = f.uuid()
		}
		c.Allocations = append(c.Allocations, ledger.Allocation{
			Provider: provider, Class: ledger.ClassID(f.uint()), Amount: f.int(),
		})
	}
	return c, f.end("consumer")
}

// appendUsage writes what an owner's consumers hold, of every class that they ever held.
func appendUsage(b []byte, consumers int64, held runs) []byte {
	return appendRuns(binary.AppendVarint(b, consumers), held)
}

func readUsage(key []byte, _ uint64, value []byte) (*ledger.Usage, error) {
	owner, err := ownerOf(key)
	if err != nil {
		return nil, err
	}
	f := fields{data: value}
	u := &ledger.Usage{Owner: owner, Consumers: f.int()}
	for _, r := range f.runs() {
		if r.Amount != 0 {
			u.Amounts = append(u.Amounts, ledger.ClassAmount{Class: r.Class, Amount: r.Amount})
		}
	}
	return u, f.end("usage")
}

func appendTrait(b []byte, t *ledger.Trait) []byte { return binary.AppendVarint(b, t.CreatedAt) }

func readTrait(key []byte, _ uint64, value []byte) (*ledger.Trait, error) {
	f := fields{data: value}
	trait := &ledger.Trait{Name: string(key[3:]), CreatedAt: f.int()}
	return trait, f.end("trait")
}

func appendClasses(b []byte, t *ledger.ClassTable) []byte {
	for _, c := range t.All() {
		b = binary.AppendUvarint(b, uint64(c.ID))
		b = appendString(b, c.Name)
		b = binary.AppendVarint(b, c.CreatedAt)
		b = binary.AppendVarint(b, c.UpdatedAt)
	}
	return b
}

func readClasses(data []byte) (*ledger.ClassTable, error) {
	f := fields{data: data}
	var classes []ledger.Class
	for len(f.data) > 0 {
		classes = append(classes, ledger.Class{
			ID: ledger.ClassID(f.uint()), Name: f.string(), CreatedAt: f.int(), UpdatedAt: f.int(),
		})
	}
	return ledger.NewClassTable(classes), f.end("resource classes")
}

// Names of projects, users and requests are uuids, as a rule, in one of a few
// spellings. These are stored in a byte for the spelling and 16 for the uuid: a
// third of the room, and compression of hexadecimal digits costs more time than
// packing them. Any other name is stored as it is, after its length plus packings.
const packings = uint64(ledger.Spellings)

// appendPacked writes a name.
func appendPacked(b []byte, name string) []byte {
	if id, as, ok := ledger.ParseText(name); ok {
		return append(append(b, byte(as)), id[:]...)
	}
	return append(binary.AppendUvarint(b, packings+uint64(len(name))), name...)
}

func (f *fields) packed() string {
	switch n := f.uint(); {
	case f.bad:
		return ""
	case n < packings:
		return ledger.Spelling(n).Text(f.uuid())
	default:
		return string(f.take(n - packings))
	}
}

func (f *fields) skipPacked() {
	if n := f.uint(); n < packings {
		f.take(uint64(len(ledger.UUID{})))
	} else {
		f.take(n - packings)
	}
}
