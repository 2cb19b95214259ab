package projector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/allot-project/allot/ledger"
)

// View reads everything as it was right after one commit. It costs nothing to
// make and need not be closed. Any number may be used at once, while commits are
// folded.
type View struct {
	p        *models
	sequence uint64
}

// View returns the newest view.
func (p *Projector) View() View { return p.models.Load().view() }

// ErrNotYet means that the view is in the future.
var ErrNotYet = errors.New("projector: the sequence has not been reached")

// ErrBeforeFirst means that the view is before the first commit.
var ErrBeforeFirst = errors.New("projector: the moment is before the first commit")

// ViewAt returns the view after the commit with this sequence, or after the last one
// before it where the log has another entry there.
func (p *Projector) ViewAt(sequence uint64) (View, error) {
	if sequence == 0 {
		return View{}, fmt.Errorf("%w, which has sequence 1", ErrBeforeFirst)
	}
	newest := p.View()
	if sequence > newest.sequence {
		return View{}, fmt.Errorf("%w: %d, newest is %d", ErrNotYet, sequence, newest.sequence)
	}
	return View{p: newest.p, sequence: sequence}, nil
}

// ViewAtTime returns the view after the last commit that was decided at or before
// a time, which must not be after now. Now is no earlier than the newest commit, whose
// server's clock may be ahead of this one's. The time must have ledger.Nanoseconds.
func (p *Projector) ViewAtTime(at, now time.Time) (View, error) {
	newest := p.View()
	if at.After(now) {
		last, err := newest.Moment()
		if err != nil {
			return View{}, err
		}
		if at.UnixNano() > last.Time {
			return View{}, fmt.Errorf("%w: %s is in the future", ErrNotYet, at.Format(time.RFC3339Nano))
		}
	}
	// Times of records never go back, so the commits are sorted by time.
	var failure error
	upTo := uint64(sort.Search(int(newest.sequence), func(i int) bool {
		last, err := newest.p.lastCommit(uint64(i) + 1)
		var decided int64
		if err == nil && last > 0 {
			_, decided, _, err = newest.CommitMark(last)
		}
		failure = cmp.Or(failure, err)
		return last > 0 && decided > at.UnixNano()
	}))
	first := uint64(0)
	if failure == nil && upTo > 0 {
		first, failure = newest.p.lastCommit(upTo)
	}
	if failure != nil {
		return View{}, failure
	}
	if first == 0 {
		return View{}, fmt.Errorf("%w: %s", ErrBeforeFirst, at.Format(time.RFC3339Nano))
	}
	return p.ViewAt(upTo)
}

// Sequence returns the sequence of the view's commit.
func (v View) Sequence() uint64 { return v.sequence }

// version finds the newest version of a key that the view can see. The key is
// given without its version.
func (v View) version(key []byte) (value []byte, sequence uint64, found bool, err error) {
	it, err := v.p.Iterate(appendVersion(slices.Clone(key), v.sequence), after(appendVersion(slices.Clone(key), 0)))
	if err != nil {
		return nil, 0, false, err
	}
	if it.First() && !gone(it.Key(), it.Value()) {
		value, sequence, found = slices.Clone(it.Value()), versionOf(it.Key()), true
	}
	return value, sequence, found, it.Finish(nil)
}

// each calls yield with the newest visible version of every key that begins with
// prefix, as long as it returns true. Key and value must not be kept.
func (v View) each(prefix []byte, yield func(key []byte, sequence uint64, value []byte) (bool, error)) error {
	return v.eachFrom(prefix, prefix, yield)
}

// eachFrom is each for the keys from a key on.
func (v View) eachFrom(prefix, from []byte, yield func(key []byte, sequence uint64, value []byte) (bool, error)) error {
	it, err := v.p.Iterate(from, after(prefix))
	if err != nil {
		return err
	}
	var base, seek []byte // the key without its version, and where to seek
	for ok := it.First(); ok; {
		base = append(base[:0], it.Key()[:len(it.Key())-versionBytes]...)
		if versionOf(it.Key()) > v.sequence {
			seek = appendVersion(append(seek[:0], base...), v.sequence)
			if ok = it.SeekGE(seek); !ok || !isVersionOf(it.Key(), base) {
				continue // it did not exist then
			}
		}
		if !gone(it.Key(), it.Value()) {
			more, err := yield(base, versionOf(it.Key()), it.Value())
			if err != nil || !more {
				return it.Finish(err)
			}
		}
		if ok = it.Next(); ok && isVersionOf(it.Key(), base) {
			ok = it.SeekGE(after(base)) // skip older versions
		}
	}
	return it.Finish(nil)
}

// eachOf is eachFrom for what each key has.
func eachOf[T any](
	v View, prefix, from []byte, read func(key []byte, sequence uint64, value []byte) (T, error), yield func(T) bool,
) error {
	return v.eachFrom(prefix, from, func(key []byte, sequence uint64, value []byte) (bool, error) {
		one, err := read(key, sequence, value)
		return err == nil && yield(one), err
	})
}

func isVersionOf(key, base []byte) bool {
	return len(key) == len(base)+versionBytes && bytes.HasPrefix(key, base)
}

// Provider finds a provider.
func (v View) Provider(id ledger.UUID) (*ledger.Provider, bool, error) {
	description, _, found, err := v.version(idKey(tableProvider, id))
	if err != nil || !found {
		return nil, false, err
	}
	p, err := v.provider(id, description)
	return p, err == nil, v.p.Judged(err)
}

func (v View) provider(id ledger.UUID, description []byte) (*ledger.Provider, error) {
	p := &ledger.Provider{UUID: id}
	if err := readProvider(description, p); err != nil {
		return nil, err
	}
	state, _, found, err := v.version(idKey(tableProviderState, id))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%w: provider %s has no state", ErrDamaged, id)
	}
	return p, readProviderState(state, p)
}

// ProviderNamed finds a provider by name.
func (v View) ProviderNamed(name string) (*ledger.Provider, bool, error) {
	value, _, found, err := v.version(textKey(tableName, name))
	if err != nil || !found {
		return nil, false, err
	}
	var id ledger.UUID
	if copy(id[:], value) != len(id) {
		return nil, false, v.p.Judged(fmt.Errorf("%w: name", ErrDamaged))
	}
	return v.Provider(id)
}

// Providers calls yield for each provider, in UUID order, as long as it returns
// true.
func (v View) Providers(yield func(*ledger.Provider) bool) error {
	return v.ProvidersAfter(ledger.NilUUID, yield)
}

// ProvidersAfter is Providers for those after one (NilUUID: from the first).
func (v View) ProvidersAfter(behind ledger.UUID, yield func(*ledger.Provider) bool) error {
	// It walks through descriptions and states side by side.
	states, stop := iter.Pull2(v.states(behind))
	defer stop()
	from := after(idKey(tableProvider, behind))
	return v.eachFrom([]byte{tableProvider}, from, func(key []byte, _ uint64, value []byte) (bool, error) {
		p := &ledger.Provider{}
		copy(p.UUID[:], key[1:])
		if err := readProvider(value, p); err != nil {
			return false, err
		}
		state, err, more := states()
		if err != nil {
			return false, err
		}
		if !more || state.id != p.UUID {
			return false, fmt.Errorf("%w: provider %s has no state", ErrDamaged, p.UUID)
		}
		if err := readProviderState(state.value, p); err != nil {
			return false, err
		}
		return yield(p), nil
	})
}

type providerState struct {
	id    ledger.UUID
	value []byte
}

// states yields the state of each provider after one, in UUID order.
func (v View) states(behind ledger.UUID) iter.Seq2[providerState, error] {
	from := after(idKey(tableProviderState, behind))
	return func(yield func(providerState, error) bool) {
		err := v.eachFrom([]byte{tableProviderState}, from, func(key []byte, _ uint64, value []byte) (bool, error) {
			s := providerState{value: value}
			copy(s.id[:], key[1:])
			return yield(s, nil), nil
		})
		if err != nil {
			yield(providerState{}, err)
		}
	}
}

// Inventories calls yield with the inventories of each provider, as long as it
// returns true. It reads half of what Providers reads. They must not be kept.
func (v View) Inventories(yield func([]ledger.Inventory) bool) error {
	for state, err := range v.states(ledger.NilUUID) {
		if err != nil {
			return v.p.Judged(err)
		}
		var p ledger.Provider
		if err := readProviderState(state.value, &p); err != nil {
			return v.p.Judged(err)
		}
		if !yield(p.Inventories) {
			return nil
		}
	}
	return nil
}

// Consumer finds a consumer.
func (v View) Consumer(id ledger.UUID) (*ledger.Consumer, bool, error) {
	key := idKey(tableConsumer, id)
	value, sequence, found, err := v.version(key)
	if err != nil || !found {
		return nil, false, err
	}
	c, err := readConsumer(key, sequence, value)
	if err != nil {
		return nil, false, v.p.Judged(err)
	}
	return c, true, nil
}

// Consumers calls yield for each consumer after one (NilUUID: from the first), in
// UUID order, as long as it returns true.
func (v View) Consumers(behind ledger.UUID, yield func(*ledger.Consumer) bool) error {
	return eachOf(v, []byte{tableConsumer}, after(idKey(tableConsumer, behind)), readConsumer, yield)
}

// ProviderConsumers calls yield for each consumer that holds something of a
// provider, as long as it returns true.
func (v View) ProviderConsumers(id ledger.UUID, yield func(*ledger.Consumer) bool) error {
	return v.HoldersOf([]ledger.UUID{id}, yield)
}

// HoldersOf is ProviderConsumers for some providers together.
func (v View) HoldersOf(providers []ledger.UUID, yield func(*ledger.Consumer) bool) error {
	ids, err := v.consumersOf(providers)
	if err != nil {
		return err
	}
	of := func(c *ledger.Consumer) bool {
		return slices.ContainsFunc(providers, func(id ledger.UUID) bool { return holds(c, id) })
	}
	for _, consumer := range ids {
		c, found, err := v.Consumer(consumer)
		if err != nil {
			return err
		}
		if found && of(c) && !yield(c) {
			return nil
		}
	}
	return nil
}

// consumersOf lists the consumers that hold something of some providers now, or held
// it until some commit after the view. Those that the view can see are among
// them. One iterator sees both tables at one moment.
func (v View) consumersOf(providers []ledger.UUID) ([]ledger.UUID, error) {
	it, err := v.p.Iterate([]byte{tableHolding}, []byte{tableHeld + 1})
	if err != nil {
		return nil, err
	}
	var ids []ledger.UUID
	collect := func(prefix, upTo []byte) {
		for ok := it.SeekGE(prefix); ok && bytes.Compare(it.Key(), upTo) < 0; ok = it.Next() {
			var consumer ledger.UUID
			copy(consumer[:], it.Key()[len(it.Key())-len(consumer):])
			ids = append(ids, consumer)
		}
	}
	for _, id := range providers {
		now, then := idKey(tableHolding, id), idKey(tableHeld, id)
		collect(now, after(now))
		collect(then, appendVersion(slices.Clone(then), v.sequence))
	}
	if err := it.Finish(nil); err != nil {
		return nil, err
	}
	slices.SortFunc(ids, ledger.UUID.Compare)
	return slices.Compact(ids), nil
}

// Usages lists what the owners of a project hold; with a user, only that user's.
func (v View) Usages(project, user string) ([]*ledger.Usage, error) {
	prefix := textKey(tableUsage, project)
	if user != "" {
		prefix = appendText(prefix, user)
	}
	var usages []*ledger.Usage
	err := eachOf(v, prefix, prefix, readUsage, func(u *ledger.Usage) bool {
		usages = append(usages, u)
		return true
	})
	return usages, err
}

// AllUsages calls yield with what each owner holds, as long as it returns true:
// sorted by project, then user.
func (v View) AllUsages(yield func(*ledger.Usage) bool) error {
	return eachOf(v, []byte{tableUsage}, []byte{tableUsage}, readUsage, yield)
}

func ownerOf(key []byte) (*ledger.Owner, error) {
	parts, _, err := textsOf(key, 3)
	if err != nil {
		return nil, err
	}
	return &ledger.Owner{Project: parts[0], User: parts[1], Type: parts[2]}, nil
}

// textsOf reads a number of texts after a table's letter, and returns what is behind them.
func textsOf(key []byte, n int) (parts []string, rest []byte, err error) {
	parts, rest = make([]string, 0, n), key[1:]
	for range n {
		if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
			return nil, nil, fmt.Errorf("%w: a key of table %c", ErrDamaged, key[0])
		}
		end := 2 + int(binary.BigEndian.Uint16(rest))
		parts, rest = append(parts, string(rest[2:end])), rest[end:]
	}
	return parts, rest, nil
}

// Classes returns the resource classes.
func (v View) Classes() (*ledger.ClassTable, error) {
	if latest := v.p.classes.Load(); latest.since <= v.sequence {
		return latest.table, nil
	}
	value, _, found, err := v.version([]byte{tableClasses})
	if err != nil || !found {
		return ledger.NewClassTable(nil), err
	}
	table, err := readClasses(value)
	return table, v.p.Judged(err)
}

// ClassName is what a class is called or, once it is deleted, was called last; empty: there
// never was one with this number.
func (v View) ClassName(id ledger.ClassID) (name string, err error) {
	classes, err := v.Classes()
	if err != nil || classes.Name(id) != "" {
		return classes.Name(id), err
	}
	err = versionsOf(v, []byte{tableClasses}, func(value []byte) (*ledger.ClassTable, error) {
		return readClasses(value)
	}, func(then *ledger.ClassTable, _ uint64) bool {
		name = then.Name(id)
		return name == ""
	})
	return name, err
}

// Trait finds a trait.
func (v View) Trait(name string) (*ledger.Trait, bool, error) {
	key := textKey(tableTrait, name)
	value, sequence, found, err := v.version(key)
	if err != nil || !found {
		return nil, false, err
	}
	trait, err := readTrait(key, sequence, value)
	return trait, true, v.p.Judged(err)
}

// Traits calls yield for each trait as long as it returns true.
func (v View) Traits(yield func(*ledger.Trait) bool) error {
	return eachOf(v, []byte{tableTrait}, []byte{tableTrait}, readTrait, yield)
}

// CommitMark returns the digest of a commit, and the time of its last record in
// Unix nanoseconds.
func (v View) CommitMark(sequence uint64) (ledger.Head, int64, bool, error) {
	var head ledger.Head
	var at int64
	found, err := v.commit(sequence, func(f *fields) { head, at, _ = f.commitPoint(sequence) })
	return head, at, found, err
}

// Record returns a record without its events, which are in the log only.
func (v View) Record(at ledger.Address) (*ledger.Record, bool, error) {
	if at.Sequence > v.sequence {
		return nil, false, nil
	}
	var record *ledger.Record
	_, err := v.commit(at.Sequence, func(f *fields) {
		_, last, _ := f.commitPoint(at.Sequence)
		if at.Index >= f.count() {
			return
		}
		for range at.Index {
			skipRecord(f)
		}
		record = readRecord(f, last)
	})
	return record, record != nil, err
}

// RecordsOf returns the records of a commit without their events, which are in
// the log only.
func (v View) RecordsOf(sequence uint64) (list []*ledger.Record, err error) {
	if sequence > v.sequence {
		return nil, nil
	}
	_, err = v.commit(sequence, func(f *fields) {
		_, last, _ := f.commitPoint(sequence)
		for range f.count() {
			list = append(list, readRecord(f, last))
		}
	})
	return list, err
}

// commit reads as much of a commit's value as the caller needs.
func (v View) commit(sequence uint64, read func(*fields)) (found bool, err error) {
	return v.p.Get(commitKey(sequence), func(value []byte) error {
		f := fields{data: value}
		read(&f)
		f.data = nil // the rest
		return f.end("commit")
	})
}

// Digest returns the SHA-256 over every key and value of the read models. Equal
// logs give equal digests, however they were folded.
func (p *Projector) Digest() (ledger.Digest, error) { return p.View().digest() }

func (v View) digest() (ledger.Digest, error) {
	it, err := v.p.Iterate(nil, nil)
	if err != nil {
		return ledger.Digest{}, err
	}
	sum := newDigester()
	for ok := it.First(); ok; ok = it.Next() {
		sum.add(it.Key())
		sum.add(it.Value())
	}
	return sum.digest(), it.Finish(nil)
}
