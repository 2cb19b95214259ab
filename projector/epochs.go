package projector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/past"
)

// Old versions may leave the read models, too, see HotHistory: all that views before a
// horizon need, and views from it on do not. The horizon moves by an epoch at a time. What
// leaves is written into files in the archives first, together with what these views
// share with the later ones, so that a view before the horizon reads the files of one
// epoch, and Pebble not at all. A history, which goes through versions from the newest to
// the oldest, reads Pebble down to the horizon and then the epochs, of each only what is
// new in it. A filter for each epoch says of most entities that nothing is.
//
// Command ids leave as well, if they say when they were made, see past_commands.go. Tables
// that change seldom, and those of claims that wait, stay whole.

// leaveKind says which rows of a table leave.
type leaveKind byte

const (
	stays         leaveKind = iota // none
	versionsLeave                  // versions that others have replaced, and those that say that something is gone
	pastLeaves                     // all that tells about the past alone
	listsPresent                   // none; an epoch has what was the present at its end
	idsLeave                       // command ids that were made in time, see past_commands.go
)

// leaveRule says which rows of a table leave.
type leaveRule struct {
	kind leaveKind
	skip int // with pastLeaves: bytes before the version; -1: the version ends the key
}

// version returns the version in a key.
func (r leaveRule) version(key []byte) uint64 {
	if r.kind == pastLeaves && r.skip >= 0 {
		return versionOf(key[:1+r.skip+versionBytes])
	}
	return versionOf(key)
}

// group returns what comes before the version in a key. Each command is a group by itself.
func (r leaveRule) group(key []byte) []byte {
	switch {
	case r.kind == idsLeave:
		return key
	case r.kind == pastLeaves && r.skip >= 0:
		return key[:1+r.skip]
	}
	return key[:len(key)-versionBytes]
}

// leaveRules are those of all tables.
var leaveRules = func() (rules [256]leaveRule) {
	for _, t := range []byte{tableProvider, tableProviderState, tableName, tableConsumer, tableUsage, tableAggregateUse} {
		rules[t] = leaveRule{kind: versionsLeave}
	}
	rules[tableCommand] = leaveRule{kind: idsLeave}
	rules[tableHolding] = leaveRule{kind: listsPresent}
	rules[tableHeld] = leaveRule{pastLeaves, len(ledger.UUID{})}
	rules[tableHistory] = leaveRule{pastLeaves, -1}
	for _, e := range []entityTables{nodeTables, nodeAllocationTables, chassisTables} {
		rules[e.value], rules[e.id] = leaveRule{kind: versionsLeave}, leaveRule{kind: versionsLeave}
		rules[e.now], rules[e.until] = leaveRule{kind: listsPresent}, leaveRule{pastLeaves, 0}
		if e.name != 0 {
			rules[e.name] = leaveRule{kind: versionsLeave}
		}
	}
	return rules
}()

// mayLeave reports whether views before the horizon read a table elsewhere.
func mayLeave(table byte) bool { return leaveRules[table].kind != stays }

// historyTables are those that histories are read from, see Subject.versions.
var historyTables = [256]bool{tableConsumer: true, tableProviderState: true, tableHistory: true}

// epoch is a stretch of the past whose versions have left the read models together.
type epoch struct {
	first, last uint64 // views from first on, up to last, which is not one of them, read its files
	records     int64  // that the log has with last
	dropped     bool   // all of it has left
	chunks      int    // of the filter
	files       int
}

// epochFile is a file with rows of an epoch, which are sorted through all of its files. There
// may be thousands in an epoch, and most questions about one need none: its filter says so.
type epochFile struct {
	past.File

	low, high []byte // the first and the last key
}

// horizon is from where on views read the read models alone.
type horizon struct {
	sequence uint64
	records  int64 // that the log has with it
}

// isOfEpochs reports whether a table is about epochs, and so about what has left.
func isOfEpochs(table byte) bool {
	return table == tableEpoch || table == tableEpochFile || table == tableEpochFilter || table == tableEpochIDs
}

func epochKey(last uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{tableEpoch}, last)
}

// value returns what is stored of an epoch.
func (e *epoch) value() []byte {
	value := binary.AppendUvarint(nil, e.first)
	value = binary.AppendUvarint(value, uint64(e.records))
	value = appendBool(value, e.dropped)
	value = binary.AppendUvarint(value, uint64(e.chunks))
	return binary.AppendUvarint(value, uint64(e.files))
}

// readEpoch reads the epoch that a cursor stands at.
func readEpoch(it *cursor) (*epoch, error) {
	f := fields{data: it.Value()}
	e := &epoch{last: binary.BigEndian.Uint64(it.Key()[1:])}
	e.first, e.records, e.dropped = f.uint(), int64(f.uint()), f.bool()
	e.chunks, e.files = int(f.uint()), int(f.uint())
	return e, f.end("epoch")
}

// key is where a file is stored: by its last key, so that the file that has a row is found
// at once.
func (f epochFile) key() []byte { return append(fileKey(f.Last), f.high...) }

func fileKey(last uint64) []byte { return binary.BigEndian.AppendUint64([]byte{tableEpochFile}, last) }

// value returns what is stored of a file.
func (f epochFile) value() []byte {
	value := binary.AppendUvarint(binary.AppendUvarint(nil, f.First), uint64(f.Number))
	value = binary.AppendUvarint(append(value, f.Sum[:]...), uint64(f.Bytes))
	return appendString(value, string(f.low))
}

// readEpochFile reads the file that a cursor stands at.
func readEpochFile(it *cursor) (one epochFile, err error) {
	key, f := it.Key()[1:], fields{data: it.Value()}
	one.Form, one.Last, one.high = schemaVersion, binary.BigEndian.Uint64(key), bytes.Clone(key[8:])
	one.First, one.Number = f.uint(), int(f.uint())
	copy(one.Sum[:], f.take(uint64(len(one.Sum))))
	one.Bytes, one.low = int64(f.uint()), []byte(f.string())
	return one, f.end("file of an epoch")
}

// allFiles returns the files of an epoch.
func (m *models) allFiles(e *epoch) ([]past.File, error) {
	return m.filesWithin(e, keyRange{nil, []byte{0xff}})
}

// filesWithin returns the files of an epoch that have keys in some ranges, in the order of
// their rows.
func (m *models) filesWithin(e *epoch, ranges ...keyRange) (files []past.File, err error) {
	it, err := m.cursor(fileKey(e.last), fileKey(e.last+1))
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		if files, err = appendFiles(files, it, e, r); err != nil {
			return nil, finish(it, err)
		}
	}
	// One may have keys in several of them.
	slices.SortFunc(files, func(a, b past.File) int { return cmp.Compare(a.Number, b.Number) })
	files = slices.CompactFunc(files, func(a, b past.File) bool { return a.Number == b.Number })
	return files, finish(it, nil)
}

// appendFiles appends the files of an epoch that have keys in a range. Those before and
// after them are looked at, too, so that one that is missing is noticed.
func appendFiles(files []past.File, it *cursor, e *epoch, in keyRange) ([]past.File, error) {
	next := 0
	if it.SeekLT(append(fileKey(e.last), in.lower...)) {
		before, err := readEpochFile(it)
		if err != nil {
			return nil, err
		}
		next = before.Number + 1
	}
	for ; it.Next(); next++ {
		f, err := readEpochFile(it)
		if err != nil {
			return nil, err
		}
		if f.Number != next {
			return nil, fmt.Errorf("%w: file %d of the epoch up to %d is missing", ErrDamaged, next, e.last)
		}
		if bytes.Compare(f.low, in.upper) >= 0 {
			return files, nil
		}
		files = append(files, f.File)
	}
	if next != e.files {
		return nil, fmt.Errorf("%w: %d files of the epoch up to %d, which has %d", ErrDamaged, next, e.last, e.files)
	}
	return files, nil
}

// loadHorizon reads how far versions have left, and command ids.
func (m *models) loadHorizon() error {
	last, err := m.lastEpoch()
	if err != nil || last == nil {
		return err
	}
	m.horizon.Store(last.horizon())
	return m.loadLeft()
}

func (e *epoch) horizon() *horizon { return &horizon{e.last, e.records} }

// lastEpoch returns the newest epoch; nil: there is none.
func (m *models) lastEpoch() (*epoch, error) {
	it, err := m.cursor([]byte{tableEpoch}, []byte{tableEpoch + 1})
	if err != nil {
		return nil, err
	}
	var e *epoch
	if it.Last() {
		e, err = readEpoch(it)
	}
	return e, finish(it, err)
}

// epochOf returns the epoch whose files a view before the horizon reads.
func (m *models) epochOf(view uint64) (*epoch, error) {
	found, err := m.epochWith(view + 1)
	if err == nil && (found == nil || found.first > view) {
		err = m.judged(fmt.Errorf("%w: no epoch has the view of %d", ErrDamaged, view))
	}
	return found, err
}

// epochWith returns the epoch with a sequence; nil: none has ended that has it.
func (m *models) epochWith(sequence uint64) (found *epoch, err error) {
	err = m.epochs(sequence, func(e *epoch) (bool, error) {
		found = e
		return false, nil
	})
	return found, err
}

// epochs calls yield for the epoch with a sequence and later ones, as long as it returns
// true.
func (m *models) epochs(from uint64, yield func(*epoch) (bool, error)) error {
	it, err := m.cursor(epochKey(from), []byte{tableEpoch + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		e, err := readEpoch(it)
		more := false
		if err == nil {
			more, err = yield(e)
		}
		if err != nil || !more {
			return finish(it, err)
		}
	}
	return finish(it, nil)
}

// epochsBack calls yield for the epoch with a sequence, and those before it, as long as it
// returns true.
func (m *models) epochsBack(from uint64, yield func(*epoch) (bool, error)) error {
	it, err := m.cursor([]byte{tableEpoch}, []byte{tableEpoch + 1})
	if err != nil {
		return err
	}
	for ok := it.SeekGE(epochKey(from)); ok; ok = it.Prev() {
		e, err := readEpoch(it)
		more := false
		if err == nil {
			more, err = yield(e)
		}
		if err != nil || !more {
			return finish(it, err)
		}
	}
	return finish(it, nil)
}
