package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/logfile"
)

// Log is the log in archives, read only. Parts are fetched whole, one at a time, verified, and kept in a folder as
// long as there is room. If a part of one archive cannot be had, the next archive is asked. It is safe for
// concurrent use.
type Log struct {
	archives []*Archive
	folder   string
	bound    int64

	mu    sync.Mutex         // held while a part is fetched: its readers wait for it
	kept  map[Name]*keptPart // guarded by mu
	bytes int64              // guarded by mu
	turn  uint64             // guarded by mu
}

type keptPart struct {
	size int64
	used uint64 // the turn in which it was last read
}

var _ ledger.Log = (*Log)(nil)

// ErrReadOnly means that this log cannot be appended to.
var ErrReadOnly = errors.New("archives: this log can only be read")

// NewLog returns the log in some archives. It keeps at most so many bytes of
// parts in a folder, but always the newest one.
func NewLog(archives []*Archive, folder string, bytes int64) *Log {
	return &Log{archives: archives, folder: folder, bound: bytes, kept: make(map[Name]*keptPart)}
}

// Append implements ledger.Log. It always fails.
func (l *Log) Append(_ uint64, _ []byte, done func(error)) { done(ErrReadOnly) }

// MaxCommitBytes implements ledger.Log.
func (l *Log) MaxCommitBytes() int { return 64 << 20 }

// Last implements ledger.Log: the end of the archive that goes furthest without a
// gap.
func (l *Log) Last(ctx context.Context) (last uint64, err error) {
	var failed error
	for _, a := range l.archives {
		if err := a.Refresh(ctx); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if names, _ := a.walk(0); len(names) > 0 {
			last = max(last, names[len(names)-1].Last.Sequence)
		}
	}
	if last == 0 && failed != nil {
		return 0, fmt.Errorf("%w: %w", ledger.ErrUnavailable, failed)
	}
	return last, nil
}

// Read implements ledger.Log. While a part is read the next one is fetched.
func (l *Log) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var ahead sync.WaitGroup
	defer ahead.Wait()
	defer cancel()
	for from = max(from, 1); from <= to; {
		part, err := l.open(ctx, from)
		if err != nil {
			return err
		}
		end := min(to, part.name.Last.Sequence)
		if end < to {
			ahead.Go(func() {
				if part, err := l.open(ctx, end+1); err == nil { // what is wrong with it, its reader finds
					_ = part.file.Close() // it was only read
				}
			})
		}
		err = logfile.ReadRange(part.file, part.size, from, end, func(e ledger.Entry) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return yield(e)
		})
		if err := errors.Join(err, part.file.Close()); err != nil {
			if errors.Is(err, logfile.ErrDamaged) {
				l.forget(part.name) // the disk has changed it: it is fetched again
			}
			return err
		}
		from = end + 1
	}
	return nil
}

// LastBefore returns the sequence of the last commit whose records are all as old
// as a time, in Unix nanoseconds, or older; 0: there is none. Times do not
// decrease in a log.
func (l *Log) LastBefore(ctx context.Context, nanoseconds int64) (uint64, error) {
	last, err := l.Last(ctx)
	if err != nil {
		return 0, err
	}
	low, high := uint64(0), last // the commit is at low or after it, and at high or before it
	for low < high {
		middle := low + (high-low+1)/2
		at, time, err := l.timeOf(ctx, middle, high)
		switch {
		case err != nil:
			return 0, err
		case time <= nanoseconds && at > 0:
			low = at
		default:
			high = middle - 1
		}
	}
	return low, nil
}

// timeOf returns the first commit from a sequence on, up to another one, and the
// time of its last record; 0: there are only foreign entries.
func (l *Log) timeOf(ctx context.Context, from, to uint64) (sequence uint64, time int64, err error) {
	err = l.Read(ctx, from, to, func(e ledger.Entry) error {
		commit, err := ledger.DecodeCommit(e.Data)
		if err != nil || commit.Sequence != e.Sequence {
			return nil // it is foreign: each part was verified
		}
		sequence, time = commit.Sequence, commit.Records[len(commit.Records)-1].Time
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return sequence, time, err
}

type openPart struct {
	name Name
	file *os.File
	size int64
}

// open returns the part that holds a sequence.
func (l *Log) open(ctx context.Context, sequence uint64) (*openPart, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if part := l.openKept(sequence); part != nil {
		return part, nil
	}
	var failed error
	missing := true
	for _, a := range l.archives {
		names := a.holding(sequence)
		if len(names) == 0 {
			err := a.Refresh(ctx) // another server may have written it since
			failed = errors.Join(failed, err)
			missing = missing && err == nil
			names = a.holding(sequence)
		}
		for _, name := range names {
			missing = false
			part, err := l.fetch(ctx, a, name)
			if err == nil {
				return part, nil
			}
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case missing:
		return nil, fmt.Errorf("%w: no archive has sequence %d", ledger.ErrLogGap, sequence)
	case errors.Is(failed, ErrPart):
		return nil, &chain.BadEntryError{Sequence: sequence, Err: failed}
	}
	return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, failed)
}

func (l *Log) path(name Name) string { return filepath.Join(l.folder, filepath.Base(name.String())) }

// openKept returns a part in the folder that holds a sequence; nil: there is none. The caller holds mu.
func (l *Log) openKept(sequence uint64) *openPart {
	for name, k := range l.kept {
		if name.First > sequence || name.Last.Sequence < sequence {
			continue
		}
		file, err := os.Open(l.path(name))
		if err != nil {
			l.drop(name) // the file was removed
			return nil
		}
		l.turn++
		k.used = l.turn
		return &openPart{name, file, k.size}
	}
	return nil
}

// fetch brings a part into the folder, verified. The caller holds mu.
func (l *Log) fetch(ctx context.Context, a *Archive, name Name) (*openPart, error) {
	if err := os.MkdirAll(l.folder, 0o750); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(l.folder, ".fetch-")
	if err != nil {
		return nil, err
	}
	if _, _, err = a.get(ctx, name, file); err == nil {
		err = os.Rename(file.Name(), l.path(name))
	}
	info, statErr := file.Stat()
	if err = errors.Join(err, statErr); err != nil {
		return nil, errors.Join(err, file.Close(), os.RemoveAll(file.Name()))
	}
	l.keep(name, info.Size())
	return &openPart{name, file, info.Size()}, nil
}

// keep notes a part, and drops those that were not read for the longest time. The caller holds mu.
func (l *Log) keep(name Name, size int64) {
	l.turn++
	l.kept[name] = &keptPart{size, l.turn}
	l.bytes += size
	for l.bytes > l.bound && len(l.kept) > 1 {
		oldest := name
		for other, k := range l.kept {
			if k.used < l.kept[oldest].used {
				oldest = other
			}
		}
		l.drop(oldest)
	}
}

// drop removes a part. The caller holds mu.
func (l *Log) drop(name Name) {
	l.bytes -= l.kept[name].size
	delete(l.kept, name)
	_ = os.Remove(l.path(name)) // if it stays, it costs room until the next start
}

func (l *Log) forget(name Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.kept[name]; ok {
		l.drop(name)
	}
}

// Checkpoints returns the signed checkpoints in the part that holds a sequence, as they are: the reader must check
// what they say. The part ends with the sequence to.
func (l *Log) Checkpoints(ctx context.Context, sequence uint64) (signed [][]byte, to uint64, err error) {
	part, err := l.open(ctx, sequence)
	if err != nil {
		return nil, 0, err
	}
	_, trailer, err := check(part.name, part.file, logfile.ReadLinks, discard)
	return trailer.Checkpoints, part.name.Last.Sequence, errors.Join(err, part.file.Close())
}
