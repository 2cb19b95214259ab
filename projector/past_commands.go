package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Command ids leave the read models with the versions of their epoch, into the same files,
// so that a command that comes again is known for ever, and what the read models keep of it
// does not grow. An id of version 7 says when it was made, and so in which epochs it has to
// be looked for: whoever asks about one that is younger than all that have left, as nearly
// everybody does, asks the read models alone. The others are looked for there, too, and
// then in the epochs that may have them: first in the filters, and then in files.
//
// An id leaves with the first epoch at whose end it was both folded and made, by the times
// of records. One that was late then stays for ever, and so does one that does not say when
// it was made.

// idsLate is how long before an epoch an id of it may have been made, in milliseconds.
const idsLate = uint64(10 * time.Second / time.Millisecond)

// commandsAtOnce is how many old commands are looked for in files at a time. To open one
// takes several times as long as to decide a command, so whoever sends old commands again
// and again must not have all processors for that.
const commandsAtOnce = 2

// idTimes says when the command ids in the files of an epoch were made, in Unix
// milliseconds, both inclusive.
type idTimes struct{ from, to uint64 }

func (t idTimes) has(at uint64) bool { return t.from <= at && at <= t.to }

// idsAfter returns when the ids of an epoch were made: after that of the epoch before it,
// or little earlier. The first epoch has all from before.
func (m *models) idsAfter(first, last uint64) (ids idTimes, err error) {
	if ids.to, err = m.timeIDs(last); err != nil || first == 0 {
		return ids, err
	}
	before, err := m.timeIDs(first)
	ids.from = before - min(before, idsLate)
	return ids, err
}

// timeIDs returns the last time of a commit at which ids may have been made.
func (m *models) timeIDs(sequence uint64) (uint64, error) {
	_, at, found, err := m.view().CommitMark(sequence)
	if err == nil && !found {
		err = fmt.Errorf("%w: there is no commit %d", ErrDamaged, sequence)
	}
	return uint64(max(at, 0) / int64(time.Millisecond)), err
}

// commands writes the command ids that leave with the epochs of a pass.
func (p *epochPass) commands() error {
	lower := append([]byte{tableCommand}, timeKey(p.epochs[0].ids.from)...)
	upper := append([]byte{tableCommand}, timeKey(p.epochs[len(p.epochs)-1].ids.to+1)...)
	return p.between(lower, upper, func(key, value []byte) error {
		id := ledger.UUID(key[1:])
		at, ok := timeOf(id)
		if !ok {
			return nil
		}
		result, err := readCommand(value)
		if err != nil {
			return p.m.judged(err)
		}
		came := p.first(result.Address.Sequence)
		i := max(came, sort.Search(len(p.epochs), func(i int) bool { return p.epochs[i].ids.to >= at }))
		if i == len(p.epochs) || !p.epochs[i].ids.has(at) {
			return nil
		}
		return p.epochs[i].add(key, value)
	})
}

// leftCommands are the epochs with command ids, in their order. There are few of them: each
// has a part of all records before it.
type leftCommands struct{ list atomic.Pointer[[]leftIDs] }

// leftIDs are the command ids of the epoch that ends with a sequence.
type leftIDs struct {
	idTimes

	last uint64
}

// key is where it is stored.
func (l leftIDs) key() []byte { return binary.BigEndian.AppendUint64([]byte{tableEpochIDs}, l.last) }

// value is what is stored of it.
func (l leftIDs) value() []byte { return binary.AppendUvarint(binary.AppendUvarint(nil, l.from), l.to) }

// add adds the newest epoch. One adds at a time.
func (l *leftCommands) add(left leftIDs) {
	// Readers of the old list do not see the new end.
	list := append(l.all(), left)
	l.list.Store(&list)
}

// loadLeft reads which command ids have left.
func (m *models) loadLeft() error {
	it, err := m.cursor([]byte{tableEpochIDs}, []byte{tableEpochIDs + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		f := fields{data: it.Value()}
		m.idsLeft.add(leftIDs{idTimes{f.uint(), f.uint()}, binary.BigEndian.Uint64(it.Key()[1:])})
		err = f.end("times of command ids")
	}
	return finish(it, err)
}

func (l *leftCommands) all() []leftIDs {
	if list := l.list.Load(); list != nil {
		return *list
	}
	return nil
}

// upTo returns until when all ids were made that have left, in Unix milliseconds; 0: none
// has.
func (l *leftCommands) upTo() uint64 {
	list := l.all()
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].to
}

// with returns the epochs that may have an id.
func (l *leftCommands) with(id ledger.UUID) []leftIDs {
	list := l.all()
	at, ok := timeOf(id)
	if !ok || len(list) == 0 || at > list[len(list)-1].to {
		return nil
	}
	list = list[sort.Search(len(list), func(i int) bool { return list[i].to >= at }):]
	return list[:sort.Search(len(list), func(i int) bool { return list[i].from > at })]
}

// command finds the record of a command id.
func (m *models) command(id ledger.UUID) (result ledger.CommandResult, found bool, err error) {
	if m.commands.excludes(id) {
		return result, false, nil
	}
	if result, found, err = m.hotCommand(id); found || err != nil {
		return result, found, err
	}
	// Whatever has left until it was not found there is in one of these epochs.
	for _, left := range m.idsLeft.with(id) {
		if result, found, err = m.coldCommand(left, id); found || err != nil {
			return result, found, err
		}
	}
	return result, false, nil
}

// hotCommand finds the record of a command id that has not left.
func (m *models) hotCommand(id ledger.UUID) (result ledger.CommandResult, found bool, err error) {
	if m.commands.excludes(id) {
		return result, false, nil
	}
	found, err = m.get(idKey(tableCommand, id), func(value []byte) (err error) {
		result, err = readCommand(value)
		return err
	})
	return result, found, err
}

// coldCommand finds the record of a command id in the files of an epoch.
func (m *models) coldCommand(left leftIDs, id ledger.UUID) (result ledger.CommandResult, found bool, err error) {
	e, err := m.epochWith(left.last)
	if err == nil && (e == nil || e.last != left.last) {
		err = m.judged(fmt.Errorf("%w: the epoch up to %d", ErrDamaged, left.last))
	}
	if err != nil {
		return result, false, err
	}
	key := idKey(tableCommand, id)
	if may, err := m.mayTouch(e, key); err != nil || !may {
		return result, false, err
	}
	select {
	case m.origin.looks <- struct{}{}:
		defer func() { <-m.origin.looks }()
	case <-m.origin.ctx.Done():
		return result, false, ErrClosed
	}
	found, err = m.pastRow(e, key, func(value []byte) (err error) {
		result, err = readCommand(value)
		return err
	})
	return result, found, err
}

// readCommand reads what is stored of a command.
func readCommand(value []byte) (result ledger.CommandResult, err error) {
	f := fields{data: value}
	result.Address = ledger.Address{Sequence: f.uint(), Index: int(f.uint())}
	copy(result.Fingerprint[:], f.take(uint64(len(result.Fingerprint))))
	return result, f.end("command")
}

// Command finds the record of a command id. If what is as old as the id has left the read
// models, it may wait for an archive, and fail with a ledger.ErrArchived. While read models
// are rebuilt it waits, if it must look there.
func (p *Projector) Command(id ledger.UUID) (ledger.CommandResult, bool, error) {
	return p.askCommand(id, (*models).command)
}

// HotCommand is Command without archives: it finds no record that has left the read models,
// see CommandsLeft.
func (p *Projector) HotCommand(id ledger.UUID) (ledger.CommandResult, bool, error) {
	return p.askCommand(id, (*models).hotCommand)
}

func (p *Projector) askCommand(
	id ledger.UUID, ask func(*models, ledger.UUID) (ledger.CommandResult, bool, error),
) (ledger.CommandResult, bool, error) {
	for {
		m := p.models.Load()
		result, found, err := ask(m, id)
		if err == nil || !errors.Is(err, ErrRebuilding) || !p.await(m) {
			return result, found, err
		}
	}
}

// CommandsLeft returns up to which sequence records have left the read models with which a
// command id may be; 0: none has. Whoever has asked Command after that needs not ask for
// them again, as long as it stays the same.
func (p *Projector) CommandsLeft(id ledger.UUID) uint64 {
	left := p.models.Load().idsLeft.with(id)
	if len(left) == 0 {
		return 0
	}
	return left[len(left)-1].last
}
