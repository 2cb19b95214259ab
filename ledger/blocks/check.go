package blocks

import (
	"bytes"
	"cmp"
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
	"github.com/allot-project/allot/ledger/chain"
)

var (
	// ErrDamaged means that a file differs from what was written.
	ErrDamaged = errors.New("the log is damaged")
	// ErrUnreadable means that the files have a form that this package does not
	// read.
	ErrUnreadable = errors.New("blocks: these files cannot be read")
)

// DamageError says where a log is damaged. It wraps ErrDamaged and
// ledger.ErrCorrupt.
type DamageError struct {
	// After is the last good commit before the damage.
	After ledger.Head
	// Next is the sequence of the first good commit after the damage; 0: there is
	// none, or it was not looked for.
	Next   uint64
	Path   string // path of the file
	Offset int    // offset in the file, in bytes
	Reason string
	Err    error // the chain's error; nil: a file is damaged
}

func (e *DamageError) Error() string {
	text := fmt.Sprintf("%v at sequence %d: %s at byte %d: %s", ErrDamaged, e.After.Sequence+1, e.Path, e.Offset, e.Reason)
	if e.Next > 0 {
		text += fmt.Sprintf("; it goes on at sequence %d", e.Next)
	}
	return text
}

// Unwrap returns ErrDamaged and ledger.ErrCorrupt, or the chain's error.
func (e *DamageError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrDamaged, e.Err}
	}
	return []error{ErrDamaged, ledger.ErrCorrupt}
}

// Report is the result of a check.
type Report struct {
	Last    ledger.Head // the last whole commit
	Commits uint64
	Bytes   int64 // blocks read
	// Unread is how many blocks were not read because the time was over.
	Unread int
	// TornPath is the file, and TornAt the offset in it, from which on an
	// unfinished write left bytes that are no record. They are empty if TornBytes
	// is 0.
	TornPath  string
	TornAt    int64
	TornBytes int64

	read []blockFacts // facts of all blocks, in order
}

type blockFacts struct {
	block
	indexed
	lastSum [checksumBytes]byte

	// odd means that not every record is a commit that follows the one before. If
	// none is odd, prev is the digest of the commit before the first one, and end
	// that of the last one.
	odd       bool
	prev, end ledger.Digest
	bad       *DamageError // what is wrong after the last good record; nil: nothing
	torn      bool         // it looks like an unfinished write
	unread    bool         // the facts come from an index
}

func (b *blockFacts) empty() bool { return b.last < b.first || b.first == 0 }

// CheckOptions bound a check.
type CheckOptions struct {
	// Budget is how long blocks that an index vouches for may be read; 0: as long
	// as it takes. Blocks without an index are always read.
	Budget time.Duration
	// CleanBudget is the budget if the server that wrote the log stopped in
	// order.
	CleanBudget time.Duration
	// Progress is called with how many bytes of how many were read.
	Progress func(done, total uint64)
}

// Check reads the files, newest first, and checks that they hold a whole log:
// every record with its checksum, sequences from 1 on without a gap, every commit with
// the digest of the one before. The error is a *DamageError, or wraps ErrDamaged or
// ErrNoLog, or is about reading. Check changes nothing.
func (f Folder) Check(ctx context.Context, opts CheckOptions) (*Report, error) {
	list, err := f.blocks()
	if err = cmp.Or(err, f.checkMeta()); err != nil {
		return nil, err
	}
	facts, err := f.scanAll(ctx, list, f.readIndex(), opts)
	if err != nil {
		return nil, err
	}
	return f.join(facts, newJoint())
}

// scanAll reads blocks in parallel, newest first, because a kill can damage only
// the newest, and those without an index.
func (f Folder) scanAll(
	ctx context.Context, list []block, known *index, opts CheckOptions,
) ([]blockFacts, error) {
	facts := make([]blockFacts, len(list))
	var total uint64
	for _, b := range list {
		total += uint64(b.size)
	}
	budget := opts.Budget
	if opts.CleanBudget > 0 && closedWell(list, known) {
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
func closedWell(list []block, known *index) bool {
	if len(list) == 0 {
		return false
	}
	newest := list[len(list)-1]
	if known == nil || newest.number != known.newest || newest.size < checksumBytes {
		return false
	}
	sum, err := readAt(newest.path, newest.size-checksumBytes, checksumBytes)
	return err == nil && bytes.Equal(sum, known.lastSum[:])
}

// scan reads one block. The fault after its last good record, if there is one, is
// in bad.
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
			// An unfinished write is no whole record, and nothing follows it.
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

// add notes a record. It returns the reason why the record cannot be there, or
// "".
func (b *blockFacts) add(f Folder, r record) (reason string) {
	if reason := f.strange(r); reason != "" {
		return reason
	}
	if b.first > 0 && r.sequence != b.last+1 {
		return fmt.Sprintf("sequence %d does not follow %d", r.sequence, b.last)
	}
	sequence, prev, err := ledger.CommitLink(r.data)
	b.odd = b.odd || err != nil || sequence != r.sequence || b.first > 0 && prev != b.end
	if b.first == 0 {
		b.first, b.firstTime, b.prev = r.sequence, r.time, prev
	}
	b.last, b.lastTime, b.end = r.sequence, r.time, ledger.DigestOf(r.data)
	b.bytes += uint64(r.length)
	return ""
}

// strange returns what is wrong with a whole record, apart from its contents.
func (f Folder) strange(r record) string {
	if r.sequence&(erasedBit|tombstoneBit) != 0 {
		return "it says that a message was deleted"
	}
	if string(r.subject) != f.Subject {
		return fmt.Sprintf("its subject is %.80q", r.subject)
	}
	return ""
}

func (f Folder) join(facts []blockFacts, j *joint) (*Report, error) {
	report := &Report{read: facts}
	for i := range facts {
		b := &facts[i]
		if !b.unread {
			report.Bytes += b.size
		} else {
			report.Unread++
		}
		if damage := j.next(b); damage != nil {
			return nil, damage
		}
		if !b.empty() {
			report.Commits += b.last - b.first + 1
		}
		if b.bad == nil {
			continue
		}
		if i < len(facts)-1 || !b.torn {
			return nil, beforeNext(b.bad, j.chain.Head(), facts[i+1:])
		}
		report.TornPath, report.TornAt = b.path, int64(b.bad.Offset)
		report.TornBytes = b.size - report.TornAt
	}
	report.Last = j.chain.Head()
	if damage := j.damage(j.chain.End()); damage != nil {
		return nil, damage
	}
	return report, nil
}

// joint follows the chain over blocks in order.
type joint struct {
	chain *chain.Chain
	last  uint64 // sequence
	path  string // facts of the block that has it
	// lost means that the chain is unknown, as after blocks that were not read,
	// and after damage.
	lost bool
}

func newJoint() *joint { return &joint{chain: chain.New(ledger.Head{})} }

// next joins a block to those before it.
func (j *joint) next(b *blockFacts) *DamageError {
	if b.empty() {
		return nil
	}
	if b.first != j.last+1 && !j.lost {
		return &DamageError{After: j.chain.Head(), Next: b.first, Path: b.path,
			Reason: fmt.Sprintf("it begins with sequence %d, and what is before it ends with %d", b.first, j.last)}
	}
	j.last, j.path = b.last, b.path
	if b.unread {
		j.lost = true
		return nil
	}
	if j.lost {
		j.chain, j.lost = chain.New(ledger.Head{Sequence: b.first - 1, Digest: b.prev}), false
	}
	if !b.odd && j.chain.NextRun(b.prev, ledger.Head{Sequence: b.last, Digest: b.end}) {
		return nil
	}
	return j.damage(j.oneByOne(b))
}

// oneByOne feeds the chain with the entries of a block, because an entry that is
// no commit, or does not follow, is in it or before it.
func (j *joint) oneByOne(b *blockFacts) error {
	buf, err := os.ReadFile(b.path)
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	for offset := 0; offset < len(buf); {
		r, unfinished := parse(buf, offset, nil)
		if unfinished != "" || r.sequence > b.last {
			return nil // the fault is in bad
		}
		if _, err := j.chain.NextLink(ledger.Entry{Sequence: r.sequence, Data: r.data}); err != nil {
			return err
		}
		offset += r.length
	}
	return nil
}

func (j *joint) damage(err error) *DamageError {
	if err == nil {
		return nil
	}
	return &DamageError{After: j.chain.Head(), Path: j.path, Reason: err.Error(), Err: err}
}

// beforeNext adds to a damage the good commits around it.
func beforeNext(d *DamageError, after ledger.Head, behind []blockFacts) *DamageError {
	d.After = after
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

// ScanIntact yields every whole entry, in the order of the files, whatever damage
// lies between them, and returns the damage; what a disk cannot read is damage, too. The caller must check whether an
// entry is a commit that follows the one before.
func (f Folder) ScanIntact(ctx context.Context, yield func(ledger.Entry) error) ([]DamageError, error) {
	list, err := f.blocks()
	if err != nil {
		return nil, err
	}
	var damage []DamageError
	last := uint64(0)
	for _, b := range list {
		buf, err := os.ReadFile(b.path) // with an error, too, it returns what comes before
		if err != nil {
			damage = append(damage, DamageError{
				After: ledger.Head{Sequence: last}, Path: b.path, Offset: len(buf), Reason: err.Error(),
			})
		}
		sum := blockHash(f.Stream, b.number)
		for offset := 0; offset < len(buf); {
			if ctx.Err() != nil {
				return damage, ctx.Err()
			}
			r, reason := parse(buf, offset, sum)
			if reason == "" {
				reason = f.strange(r)
			}
			if reason == "" {
				if err := yield(ledger.Entry{Sequence: r.sequence, Data: r.data}); err != nil {
					return damage, err
				}
				last, offset = r.sequence, offset+r.length
				continue
			}
			next, found := goodAfter(buf, offset+1, last, sum)
			damage = append(damage, DamageError{
				After: ledger.Head{Sequence: last}, Next: next.sequence, Path: b.path, Offset: offset, Reason: reason,
			})
			if !found {
				break
			}
			offset = next.offset
		}
	}
	return damage, nil
}
