package projector

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/past"
)

// Old commits may leave the read models, see HotHistory: what the table of commits
// says about one, and the leaves of the Merkle tree that are its records, follow from
// the log alone, and are made again from there, byte for byte, whenever somebody asks.
// So the log must be at hand, see ReadFrom.
//
// Marks stay. One of them stands at the first commit of the log, and one at the last
// commit that has left; between two of them there are markRecords records or, if the
// last commit has more, that commit. Whoever asks for a commit reads the stretch
// between two marks, and so learns how many records the log had with it. The marks
// have the digests of their commits: a log that holds anything else is refused.
//
// The leaves of the last tile of the tree stay, those after the last multiple of
// tileLeaves: the tree is loaded from them, so that a start needs no log before it.

const (
	// markRecords is after how many records there is a mark.
	markRecords = 256
	// tileLeaves is how many leaves a hash is of that is kept of the next level.
	tileLeaves = 1 << proof.LevelsApart
	// stretchesBytes bounds what is kept of the stretches that were read last.
	stretchesBytes = 8 << 20
	// stretchPatience bounds how long a reader waits for the log.
	stretchPatience = time.Minute
	// stretchesAtOnce bounds how many stretches are read at a time.
	stretchesAtOnce = 8
)

// ErrLogUnknown means that commits have left the read models, and that there is no
// log to make them again from.
var ErrLogUnknown = errors.New("projector: what is so old is not in the read models any more, and there is no log to read it from")

// mark is what stays of a commit that has left. The zero mark is the begin of the
// log.
type mark struct {
	head   ledger.Head
	at     int64 // time of its last record, in Unix nanoseconds
	with   int64 // records that the log has with it
	before int64 // records that the log has with the mark before
}

// next returns the mark of a commit that follows one, with its records. It says of the
// records before it how many the log has with that one.
func (k mark) next(head ledger.Head, own []ledger.Record) mark {
	return mark{head: head, at: own[len(own)-1].Time, with: k.with + int64(len(own)), before: k.with}
}

func markKey(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{tableMark}, sequence)
}

func (k *mark) value() []byte {
	value := append(binary.AppendVarint(nil, k.at), k.head.Digest[:]...)
	value = binary.AppendUvarint(value, uint64(k.with))
	return binary.AppendUvarint(value, uint64(k.before))
}

// readMark reads the mark that a cursor stands at.
func readMark(it *cursor) (mark, error) {
	return markFrom(binary.BigEndian.Uint64(it.Key()[1:]), it.Value())
}

func markFrom(sequence uint64, value []byte) (k mark, err error) {
	f := fields{data: value}
	k.head, k.at, k.with = f.mark(sequence)
	k.before = int64(f.uint())
	return k, f.end("mark")
}

// cold is which commits have left: those up to the last mark.
type cold struct {
	sync.RWMutex

	last   mark  // the zero mark: none has left; guarded by the RWMutex
	leaves int64 // number of the first leaf that is here; guarded by the RWMutex
}

// loadMarks reads which commits have left, and which leaves.
func (m *models) loadMarks() error {
	it, err := m.cursor([]byte{tableMark}, []byte{tableTree + 1})
	if err != nil {
		return err
	}
	if it.SeekLT([]byte{tableMark + 1}) {
		m.cold.last, err = readMark(it)
	}
	if err == nil && it.SeekGE(appendHashKey(nil, 0, 0)) {
		m.cold.leaves, err = firstLeaf(it)
	}
	return finish(it, err)
}

// firstLeaf returns the number of the first leaf in the row that a cursor stands at.
func firstLeaf(it *cursor) (int64, error) { return firstLeafOf(it.Key()) }

func firstLeafOf(key []byte) (int64, error) {
	level, number := key[1], binary.BigEndian.Uint64(key[2:])
	if level != 0 {
		return 0, fmt.Errorf("%w: the tree has no leaves", ErrDamaged)
	}
	return int64(number), nil
}

// leafRow returns the row of the tree with the leaves of a commit, with which the log
// has a number of records.
func leafRow(o *ledger.Outline, records int64) (key, value []byte) {
	for _, leaf := range o.Leaves() {
		value = append(value, leaf[:]...)
	}
	return appendHashKey(nil, 0, records-int64(len(o.Records))), value
}

// leavesFrom returns where the row begins that has the first leaf of the last tile
// that a number of records begins: rows before it may leave.
func (m *models) leavesFrom(records int64) (int64, error) {
	it, err := m.cursor(appendHashKey(nil, 0, 0), appendHashKey(nil, 1, 0))
	if err != nil {
		return 0, err
	}
	if !it.SeekLT(appendHashKey(nil, 0, records/tileLeaves*tileLeaves+1)) {
		return 0, finish(it, nil)
	}
	first, err := firstLeaf(it)
	return first, finish(it, err)
}

// coldUpTo returns the last commit that has left; 0: none has.
func (m *models) coldUpTo() mark {
	m.cold.RLock()
	defer m.cold.RUnlock()
	return m.cold.last
}

// markAt returns the mark of a commit, if one stays.
func (m *models) markAt(sequence uint64) (k mark, found bool, err error) {
	if sequence > m.coldUpTo().head.Sequence {
		return k, false, nil
	}
	found, err = m.get(markKey(sequence), func(value []byte) (err error) {
		k, err = markFrom(sequence, value)
		return err
	})
	return k, found, err
}

// leave removes the commits up to the last of some marks, which are those of all
// commits from a sequence on. Nothing is synced: either all of it happens or
// nothing, and both are right.
func (m *models) leave(from uint64, marks []mark) (err error) {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	batch := m.db.NewBatch()
	for _, k := range marks {
		err = errors.Join(err, batch.Set(markKey(k.head.Sequence), k.value(), nil))
	}
	last := marks[len(marks)-1]
	leaves, failed := m.leavesFrom(last.with)
	err = errors.Join(err, failed,
		batch.DeleteRange(commitKey(from), commitKey(last.head.Sequence+1), nil),
		batch.DeleteRange(appendHashKey(nil, 0, 0), appendHashKey(nil, 0, leaves), nil))
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	// Readers that do not find a commit look here next.
	m.cold.Lock()
	defer m.cold.Unlock()
	if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
		return m.broke(fmt.Errorf("commits up to %d leave: %w", last.head.Sequence, err))
	}
	m.cold.last, m.cold.leaves = last, leaves
	return nil
}

// marksAround returns the last mark before a commit that has left, and the first one
// at or after it.
func (m *models) marksAround(sequence uint64) (before, next mark, err error) {
	it, err := m.cursor([]byte{tableMark}, []byte{tableMark + 1})
	if err != nil {
		return before, next, err
	}
	if !it.SeekGE(markKey(sequence)) {
		return before, next, finish(it, fmt.Errorf("%w: no mark at or after commit %d", ErrDamaged, sequence))
	}
	next, err = readMark(it)
	if err == nil && it.Prev() {
		before, err = readMark(it)
	}
	if err == nil && next.before != before.with {
		err = fmt.Errorf("%w: a mark before commit %d is missing", ErrDamaged, next.head.Sequence)
	}
	return before, next, finish(it, err)
}

// stretchAt returns the stretch with a sequence, of a kind; nil: nothing has left there.
func (m *models) stretchAt(sequence uint64, of stretchKind) (*stretch, error) {
	if sequence == 0 || sequence > m.coldUpTo().head.Sequence {
		return nil, nil
	}
	before, next, err := m.marksAround(sequence)
	if err != nil {
		return nil, err
	}
	return m.origin.stretch(before, next, of)
}

// lastCold is lastCommit where everything has left.
func (m *models) lastCold(sequence uint64) (uint64, error) {
	if _, found, err := m.markAt(sequence); found || err != nil {
		return sequence, err
	}
	s, err := m.stretchAt(sequence, ofRows)
	if err != nil || s == nil {
		return 0, err // nothing is before the log
	}
	return s.last(sequence), nil
}

// coldRows calls yield with keys and values that the table of commits had, up to a
// sequence.
func (m *models) coldRows(ctx context.Context, to uint64, yield func(key, value []byte)) error {
	return m.eachCold(ctx, to, func(o *ledger.Outline, records int64) {
		yield(commitKey(o.Sequence), appendCommit(nil, o.Digest, o.Records, records))
	})
}

// coldLeafRows is coldRows of the leaves before one of them.
func (m *models) coldLeafRows(ctx context.Context, to uint64, before int64, yield func(key, value []byte)) error {
	return m.eachCold(ctx, to, func(o *ledger.Outline, records int64) {
		if records-int64(len(o.Records)) < before {
			yield(leafRow(o, records))
		}
	})
}

// eachCold calls yield with each commit that has left, up to a sequence, and how many
// records the log has with it.
func (m *models) eachCold(ctx context.Context, to uint64, yield func(o *ledger.Outline, records int64)) error {
	_, end, err := m.marksAround(to)
	if err != nil {
		return err
	}
	return m.origin.read(ctx, mark{}, end, func(o *ledger.Outline, k mark) error {
		if o.Sequence <= to {
			yield(o, k.with)
		}
		return nil
	})
}

// coldLeaves returns leaves that have left, from one of them up to another one, which
// is not among them.
func (m *models) coldLeaves(from, to int64) (list []ledger.Digest, err error) {
	for from < to {
		s, err := m.stretchOfLeaf(from)
		if err != nil {
			return nil, err
		}
		some := s.leaves[from-s.records : min(to-s.records, int64(len(s.leaves)))]
		list = append(list, some...)
		from += int64(len(some))
	}
	return list, nil
}

// stretchOfLeaf returns the stretch with a leaf that has left.
func (m *models) stretchOfLeaf(leaf int64) (*stretch, error) {
	var failure error
	sequence := sort.Search(int(m.coldUpTo().head.Sequence), func(i int) bool {
		_, next, err := m.marksAround(uint64(i) + 1)
		failure = cmp.Or(failure, err)
		return next.with > leaf
	})
	if failure != nil {
		return nil, failure
	}
	s, err := m.stretchAt(uint64(sequence)+1, ofLeaves)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: no commit with leaf %d has left", ErrDamaged, leaf)
	}
	return s, m.judged(err)
}

// timeMarks returns where the last sequence is whose commits are all as old as a time:
// at the first that is returned, which is 0 or that of a mark, or after it, and at the
// second or before it.
func (m *models) timeMarks(at int64) (after, upTo uint64, err error) {
	cold := m.coldUpTo()
	if cold.head.Sequence == 0 || cold.at <= at {
		return cold.head.Sequence, m.sequence.Load(), nil
	}
	var failure error
	middle := sort.Search(int(cold.head.Sequence), func(i int) bool {
		_, next, err := m.marksAround(uint64(i) + 1)
		failure = cmp.Or(failure, err)
		return next.at > at
	})
	if failure != nil {
		return 0, 0, failure
	}
	before, next, err := m.marksAround(uint64(middle) + 1)
	return before.head.Sequence, next.head.Sequence - 1, err
}

// stretch is the commits after a mark, up to the next one: their rows or their leaves.
type stretch struct {
	before    uint64          // sequence of the mark before; 0: it is the first
	sequences []uint64        // of the commits
	values    [][]byte        // as the table of commits had them
	records   int64           // that the log has before the first
	leaves    []ledger.Digest // instead of the values
	bytes     int
}

// stretchKind is what a stretch has. Leaves take time to hash, and only proofs need them.
type stretchKind string

const (
	ofRows   stretchKind = "rows"
	ofLeaves stretchKind = "leaves"
)

// add adds a commit that has left, whose mark would be k.
func (s *stretch) add(o *ledger.Outline, k mark, of stretchKind) {
	if of == ofLeaves {
		s.leaves = append(s.leaves, o.Leaves()...)
		s.bytes += len(o.Records) * len(ledger.Digest{})
		return
	}
	value := appendCommit(nil, o.Digest, o.Records, k.with)
	s.sequences, s.values = append(s.sequences, o.Sequence), append(s.values, value)
	s.bytes += cap(value) + 32
}

// value returns that of a commit; nil: the log has none there.
func (s *stretch) value(sequence uint64) []byte {
	if i, found := slices.BinarySearch(s.sequences, sequence); found {
		return s.values[i]
	}
	return nil
}

// last returns the last commit at or before a sequence of the stretch.
func (s *stretch) last(sequence uint64) uint64 {
	i, found := slices.BinarySearch(s.sequences, sequence)
	switch {
	case found:
		return sequence
	case i == 0:
		return s.before
	}
	return s.sequences[i-1]
}

// origin is the log from which commits that have left are made again.
type origin struct {
	log    atomic.Pointer[ledger.Log]
	past   atomic.Pointer[past.Files]
	ctx    context.Context // ends with the Projector
	cancel context.CancelFunc
	asking singleflight.Group
	places chan struct{} // one for each stretch that is being read
	looks  chan struct{} // one for each old command that is looked for in files

	mu    sync.Mutex
	kept  *simplelru.LRU[string, *stretch] // guarded by mu
	bytes int                              // of these; guarded by mu
}

func newOrigin() *origin {
	o := &origin{places: make(chan struct{}, stretchesAtOnce), looks: make(chan struct{}, commandsAtOnce)}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	// It fails for sizes below 1 only.
	o.kept, _ = simplelru.NewLRU(stretchesBytes/64, func(_ string, s *stretch) { o.bytes -= s.bytes })
	return o
}

// stretch returns the commits between two marks. Those that ask for the same one at
// a time share the answer.
func (o *origin) stretch(before, next mark, of stretchKind) (*stretch, error) {
	name := string(of) + " " + strconv.FormatUint(before.head.Sequence, 10) + " " + next.head.Digest.String()
	o.mu.Lock()
	found, ok := o.kept.Get(name)
	o.mu.Unlock()
	if ok {
		return found, nil
	}
	read, err, _ := o.asking.Do(name, func() (any, error) {
		s := &stretch{before: before.head.Sequence, records: before.with}
		ctx, cancel := context.WithTimeout(o.ctx, stretchPatience)
		defer cancel()
		select {
		case o.places <- struct{}{}:
			defer func() { <-o.places }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
		}
		err := o.read(ctx, before, next, func(outline *ledger.Outline, k mark) error {
			s.add(outline, k, of)
			return nil
		})
		if err == nil {
			o.keep(name, s)
		}
		return s, err
	})
	if err != nil {
		return nil, err
	}
	return read.(*stretch), nil
}

func (o *origin) keep(name string, s *stretch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes += s.bytes
	o.kept.Add(name, s)
	for o.bytes > stretchesBytes && o.kept.Len() > 1 {
		o.kept.RemoveOldest()
	}
}

// read calls yield with each commit between two marks, and with what its mark would be.
// The log must end there as the second mark says: only then what was yielded counts.
func (o *origin) read(ctx context.Context, before, next mark, yield func(o *ledger.Outline, k mark) error) error {
	log := o.log.Load()
	if log == nil {
		return ErrLogUnknown
	}
	last, err := readOutlines(ctx, *log, before, next.head.Sequence, yield)
	if ctx.Err() != nil { // the time is over, or the Projector is closed
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, cmp.Or(err, ctx.Err()))
	}
	if err != nil {
		return fmt.Errorf("commits %d to %d: %w", before.head.Sequence+1, next.head.Sequence, err)
	}
	if last.head != next.head || last.with != next.with {
		return fmt.Errorf("projector: %w: the log's commits %d to %d are not those that were folded",
			ledger.ErrChain, before.head.Sequence+1, next.head.Sequence)
	}
	return nil
}

// readOutlines calls yield with each commit after a mark up to a sequence, and with what
// its mark would be, and returns that of the last one. The caller knows the digest that
// this one must have.
func readOutlines(
	ctx context.Context, log ledger.Log, after mark, to uint64, yield func(o *ledger.Outline, k mark) error,
) (last mark, err error) {
	last = after
	err = ledger.ReadOutlines(ctx, log, after.head, to, func(o *ledger.Outline) error {
		last = last.next(o.Head(), o.Records)
		if err := yield(o, last); err != nil {
			return err
		}
		return ctx.Err()
	})
	return last, err
}

// FirstCommit returns the first sequence whose commit is in the read models, and need
// not be made again from the log. The log may have no commit there.
func (p *Projector) FirstCommit() uint64 { return p.models.Load().coldUpTo().head.Sequence + 1 }

// ReadFrom says where the log is, from which commits that have left the read models
// are made again. Without it, reading them is an ErrLogUnknown.
func (p *Projector) ReadFrom(log ledger.Log) { p.origin.log.Store(&log) }
