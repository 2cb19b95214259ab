package blocks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sort"
	"sync"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
)

// Log reads a log from its files. A server may append to it meanwhile: Log reads
// what the server has acknowledged.
type Log struct {
	folder Folder

	mu     sync.Mutex
	firsts []place // the blocks, in order; guarded by mu

	// Offsets of the records of some blocks, by path; guarded by mu.
	offsets map[string][]uint32
}

// place is where a block begins in the log.
type place struct {
	block
	first uint64
}

// cachedBlocks is how many blocks' offsets are kept, at some 100 KB a block.
const cachedBlocks = 128

var _ ledger.Log = (*Log)(nil)

// ErrReadOnly means that this log cannot be appended to.
var ErrReadOnly = errors.New("blocks: this log can only be read")

// Open opens a log for reading. The error wraps ErrNoLog if there is none.
func (f Folder) Open() (*Log, error) {
	if _, err := f.blocks(); err != nil {
		return nil, err
	}
	return &Log{folder: f, offsets: make(map[string][]uint32)}, nil
}

// Append implements ledger.Log. It always fails.
func (l *Log) Append(_ uint64, _ []byte, done func(error)) { done(ErrReadOnly) }

// MaxCommitBytes implements ledger.Log.
func (l *Log) MaxCommitBytes() int { return maxRecordBytes }

// Last implements ledger.Log. It ignores an unfinished write at the end.
func (l *Log) Last(context.Context) (uint64, error) {
	list, err := l.folder.blocks()
	if err != nil {
		return 0, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		facts, err := l.folder.scan(list[i])
		if err != nil {
			return 0, err
		}
		if facts.bad != nil && !facts.torn {
			return 0, facts.bad
		}
		if !facts.empty() {
			return facts.last, nil
		}
	}
	return 0, nil
}

// Read implements ledger.Log.
func (l *Log) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for from = max(from, 1); from <= to; {
		next := from
		b, err := l.find(from)
		if err == nil {
			next, err = l.readBlock(ctx, b, from, to, yield)
		}
		if err != nil {
			return err
		}
		if next == from {
			return &chain.BadEntryError{Sequence: from, Err: fmt.Errorf("%w: it is not in %s, where it should be",
				ErrDamaged, b.path)}
		}
		from = next
	}
	return nil
}

func (l *Log) find(sequence uint64) (place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Later blocks may have been added since.
	if i := l.search(sequence); i >= 0 && i < len(l.firsts)-1 {
		return l.firsts[i], nil
	}
	if err := l.refresh(); err != nil {
		return place{}, err
	}
	i := l.search(sequence)
	if i < 0 {
		return place{}, fmt.Errorf("%w: there is no sequence %d in %s", ledger.ErrLogGap, sequence, l.folder.Dir())
	}
	return l.firsts[i], nil
}

// search returns the last block that begins at or before a sequence, or -1.
func (l *Log) search(sequence uint64) int {
	return sort.Search(len(l.firsts), func(i int) bool { return l.firsts[i].first > sequence }) - 1
}

// refresh looks for blocks that were added since. The caller holds mu.
func (l *Log) refresh() error {
	list, err := l.folder.blocks()
	if err != nil {
		return err
	}
	known := 0
	if len(l.firsts) > 0 {
		known = l.firsts[len(l.firsts)-1].number
	}
	for _, b := range list {
		if b.number <= known || b.size == 0 {
			continue
		}
		header, err := readAt(b.path, 0, recordHeaderBytes)
		if err != nil {
			return err
		}
		l.firsts = append(l.firsts, place{b, binary.LittleEndian.Uint64(header[4:])}) // the sequence of its first record
	}
	return nil
}

// readAt reads a part of a file, all of it.
func readAt(path string, offset int64, size int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	buf := make([]byte, size)
	n, err := file.ReadAt(buf, offset)
	if errors.Is(err, io.EOF) {
		return nil, &DamageError{
			Path: path, Offset: int(offset), Reason: fmt.Sprintf("it ends after %d bytes instead of %d", n, size),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	return buf, nil
}

// readBlock yields the entries from..to of a block, and returns the next
// sequence.
func (l *Log) readBlock(ctx context.Context, b place, from, to uint64, yield func(ledger.Entry) error) (uint64, error) {
	fresh := false
	for {
		offsets, looked, err := l.offsetsOf(b, from, fresh)
		if err != nil {
			return from, err
		}
		sum := blockHash(l.folder.Stream, b.number)
		r := &blockRead{path: b.path, subject: l.folder.Subject, sum: sum, next: from, to: to}
		err = r.run(ctx, offsets, b.first, yield)
		from = r.next
		// An unfinished write may have been cut off since, and another one taken
		// its place.
		if errors.Is(err, ErrDamaged) && !looked {
			fresh = true
			continue
		}
		return from, err
	}
}

type blockRead struct {
	path, subject string
	sum           hash.Hash64
	next, to      uint64
}

func (b *blockRead) run(ctx context.Context, offsets []uint32, first uint64, yield func(ledger.Entry) error) error {
	for b.next <= b.to && b.next-first < uint64(len(offsets)-1) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		some := offsets[b.next-first:]
		some = some[:part(some, b.to-b.next)]
		buf, err := readAt(b.path, int64(some[0]), int(some[len(some)-1]-some[0]))
		if err != nil {
			return err
		}
		for _, offset := range some[:len(some)-1] {
			if err := b.one(buf, int(some[0]), int(offset), yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// one yields the record at an offset of the file, of which buf holds a part.
func (b *blockRead) one(buf []byte, begin, offset int, yield func(ledger.Entry) error) error {
	r, reason := parse(buf, offset-begin, b.sum)
	if reason == "" && (r.sequence != b.next || string(r.subject) != b.subject) {
		reason = fmt.Sprintf("it holds sequence %d of %.80q", r.sequence, r.subject)
	}
	if reason != "" {
		return &chain.BadEntryError{Sequence: b.next, Err: &DamageError{
			After: ledger.Head{Sequence: b.next - 1}, Path: b.path, Offset: offset, Reason: reason,
		}}
	}
	if err := yield(ledger.Entry{Sequence: b.next, Data: r.data}); err != nil {
		return err
	}
	b.next++
	return nil
}

// readBytes is how much of a block is read at once, in bytes.
const readBytes = 1 << 20

// part returns how many offsets to take for one read: those of the wanted records
// besides the first, of about readBytes, and the end of the last one.
func part(offsets []uint32, more uint64) int {
	n := 2
	for n < len(offsets) && uint64(n-1) <= more && offsets[n]-offsets[0] <= readBytes {
		n++
	}
	return n
}

// offsetsOf returns where a block's records begin, and where the last one
// ends. It looks at the file if a sequence came since it looked last, or if that
// is asked for.
func (l *Log) offsetsOf(b place, sequence uint64, fresh bool) (offsets []uint32, looked bool, err error) {
	l.mu.Lock()
	known, ok := l.offsets[b.path]
	l.mu.Unlock()
	if ok && !fresh && sequence-b.first < uint64(len(known)-1) {
		return known, false, nil
	}
	buf, err := os.ReadFile(b.path)
	if err != nil {
		return nil, true, fmt.Errorf("blocks: %w", err)
	}
	offsets = []uint32{0}
	for at := 0; at < len(buf); {
		r, unfinished := parse(buf, at, nil)
		if unfinished != "" {
			break
		}
		at += r.length
		offsets = append(offsets, uint32(at))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.offsets) >= cachedBlocks {
		clear(l.offsets) // they are found again
	}
	l.offsets[b.path] = offsets
	return offsets, true, nil
}
