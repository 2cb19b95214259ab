package blocks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/ledger"
)

var (
	// ErrDamaged: a file is not what was written.
	ErrDamaged = errors.New("the log is damaged")
	// ErrUnreadable: the files have a form that this package does not read.
	ErrUnreadable = errors.New("blocks: these files cannot be read")
)

// DamageError names where a log is damaged. It wraps ErrDamaged
// and ledger.ErrCorrupt.
type DamageError struct {
	// After is the last good commit before the damage.
	After ledger.Head
	// Next is the sequence of the first good commit behind the damage; 0 if
	// there is none, or if it was not looked for.
	Next   uint64
	Path   string // the file
	Offset int    // in it, in bytes
	Reason string
}

// Error implements error.
func (e *DamageError) Error() string {
	text := fmt.Sprintf("%v at sequence %d: %s at byte %d: %s", ErrDamaged, e.After.Sequence+1, e.Path, e.Offset, e.Reason)
	if e.Next > 0 {
		text += fmt.Sprintf("; it goes on at sequence %d", e.Next)
	}
	return text
}

// Unwrap returns ErrDamaged and ledger.ErrCorrupt.
func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, ledger.ErrCorrupt} }

// Report says what a check found.
type Report struct {
	Last    ledger.Head // the last whole commit
	Commits uint64
	Bytes   int64 // looked at
	// Unread is how many blocks were not read because the time was over.
	Unread int
	// TornPath and TornAt are the file, and the offset in it, from which on an
	// unfinished write left bytes that are no record; none if TornBytes is 0.
	TornPath  string
	TornAt    int64
	TornBytes int64

	read []blockFacts // of all blocks, in order
}

// blockFacts is what is known of one block.
type blockFacts struct {
	block
	first, last         uint64 // sequences; last is first-1 in an empty block
	firstTime, lastTime int64
	bytes               uint64 // of its records
	lastSum             [checksumBytes]byte

	prev   ledger.Digest // of the commit before the first
	end    ledger.Digest // of the last commit
	bad    *DamageError  // what is behind the last good record, if something is
	torn   bool          // it looks like a write that was not finished
	unread bool          // the facts are an index's
}

func (b *blockFacts) empty() bool { return b.last < b.first || b.first == 0 }

// CheckOptions bound a check.
type CheckOptions struct {
	// Budget is how long blocks may be read that an index vouches for; 0: as
	// long as it takes. Blocks without an index are always read.
	Budget time.Duration
	// CleanBudget is the budget if the server that wrote the log stopped well.
	CleanBudget time.Duration
	// Progress is told how many bytes of how many were read.
	Progress func(done, total uint64)
}

// Check reads the files, newest first, and says whether they hold a whole log:
// every record with its checksum, sequences from 1 without a gap, every commit
// with the digest of the one before. The error is a *DamageError, or wraps
// ErrDamaged or ErrNoLog, or is about reading. Nothing is changed.
func (f Folder) Check(ctx context.Context, opts CheckOptions) (*Report, error) {
	list, err := f.blocks()
	if err != nil {
		return nil, err
	}
	if err := f.checkMeta(); err != nil {
		return nil, err
	}
	known := f.readIndex()
	facts, err := f.scanAll(ctx, list, known, opts)
	if err != nil {
		return nil, err
	}
	return join(facts)
}

// scanAll reads blocks side by side, newest first: the newest are those that a
// kill can have damaged, and those without an index.
func (f Folder) scanAll(ctx context.Context, list []block, known *index, opts CheckOptions) ([]blockFacts, error) {
	facts := make([]blockFacts, len(list))
	var total uint64
	for _, b := range list {
		total += uint64(b.size)
	}
	budget := opts.Budget
	if opts.CleanBudget > 0 && f.closedWell(list, known) {
		budget = opts.CleanBudget
	}
	deadline := time.Now().Add(budget)
	var done atomic.Uint64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := len(list) - 1; i >= 0; i-- {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if budget > 0 && time.Now().After(deadline) && known.vouches(list[i]) {
				facts[i] = known.facts(list[i])
				return nil
			}
			var err error
			facts[i], err = f.scan(list[i])
			if sum := done.Add(uint64(list[i].size)); opts.Progress != nil {
				opts.Progress(sum, total)
			}
			return err
		})
	}
	return facts, group.Wait()
}

// closedWell reports whether the index was written after the last record.
func (f Folder) closedWell(list []block, known *index) bool {
	if known == nil || len(list) == 0 || list[len(list)-1].number != known.newest {
		return false
	}
	newest := list[len(list)-1]
	if newest.size < checksumBytes {
		return false
	}
	sum, err := readAt(newest.path, newest.size-checksumBytes, checksumBytes)
	return err == nil && bytes.Equal(sum, known.lastSum[:])
}

// scan reads one block. What is wrong behind its last good record is in bad.
func (f Folder) scan(b block) (blockFacts, error) {
	buf, err := os.ReadFile(b.path)
	if err != nil {
		return blockFacts{block: b}, fmt.Errorf("blocks: %w", err)
	}
	return f.scanBytes(b, buf), nil
}

func (f Folder) scanBytes(b block, buf []byte) blockFacts {
	facts := blockFacts{block: b}
	facts.size = int64(len(buf))
	sum := blockHash(f.Stream, b.number)
	for offset := 0; offset < len(buf); {
		r, unfinished := parse(buf, offset, sum)
		reason := unfinished
		if unfinished == "" {
			reason = facts.add(f, r)
		}
		if reason != "" {
			facts.bad = &DamageError{Path: b.path, Offset: offset, Reason: reason}
			// A write that was not finished is no whole record, and nothing is behind it.
			next, more := goodAfter(buf, offset+1, facts.last, sum)
			facts.bad.Next = next.sequence
			facts.torn = unfinished != "" && !more
			return facts
		}
		copy(facts.lastSum[:], buf[offset+r.length-checksumBytes:])
		offset += r.length
	}
	return facts
}

// add follows the chain within a block; the reason says what breaks it.
func (b *blockFacts) add(f Folder, r record) (reason string) {
	prev, reason := f.linkOf(r)
	switch {
	case reason != "":
		return reason
	case b.first > 0 && (r.sequence != b.last+1 || prev != b.end):
		return fmt.Sprintf("sequence %d (after %.8s) does not follow %d (%.8s)", r.sequence, prev, b.last, b.end)
	case b.first == 0:
		b.first, b.firstTime, b.prev = r.sequence, r.time, prev
	}
	b.last, b.lastTime, b.end = r.sequence, r.time, ledger.DigestOf(r.data)
	b.bytes += uint64(r.length)
	return ""
}

// join follows the chain from block to block.
func join(facts []blockFacts) (*Report, error) {
	report := &Report{read: facts}
	var before *blockFacts // the last one that was read
	for i := range facts {
		b := &facts[i]
		if !b.unread {
			report.Bytes += b.size
		} else {
			report.Unread++
		}
		if err := follows(report.Last, before, b); err != nil {
			return nil, err
		}
		if !b.empty() {
			report.Commits += b.last - b.first + 1
			report.Last = ledger.Head{Sequence: b.last, Digest: b.end}
			before = b
		}
		if b.bad == nil {
			continue
		}
		if i < len(facts)-1 || !b.torn {
			return nil, damage(b.bad, report.Last, facts[i+1:])
		}
		report.TornPath, report.TornAt = b.path, int64(b.bad.Offset)
		report.TornBytes = b.size - report.TornAt
	}
	return report, nil
}

// follows checks that a block continues the ones before it.
func follows(last ledger.Head, before, b *blockFacts) error {
	if b.empty() {
		return nil
	}
	if b.first != last.Sequence+1 {
		return &DamageError{After: last, Next: b.first, Path: b.path,
			Reason: fmt.Sprintf("it begins with sequence %d, and what is before it ends with %d", b.first, last.Sequence)}
	}
	chained := before == nil || !before.unread && !b.unread
	if chained && b.prev != last.Digest {
		return &DamageError{After: last, Next: b.first, Path: b.path,
			Reason: fmt.Sprintf("its first commit follows %.8s, and what is before it ends with %.8s", b.prev, last.Digest)}
	}
	return nil
}

// damage completes what is said of damage with what is good behind it.
func damage(d *DamageError, last ledger.Head, behind []blockFacts) error {
	d.After = last
	if d.Next == 0 {
		if i := slices.IndexFunc(behind, func(b blockFacts) bool { return !b.empty() }); i >= 0 {
			d.Next = behind[i].first
		}
	}
	return d
}

// joinErrors is errors.Join, with the package's name.
func joinErrors(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	return nil
}
