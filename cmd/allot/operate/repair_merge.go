package operate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
)

// Copies of one log are merged sequence by sequence. The entry that continues the chain of digests is taken
// from the first copy that has it, so one whole commit proves everything before it, from whichever copies that
// came. Two different commits of one sequence are two histories: nothing here chooses between them.

// logCopy is a copy of a log, or what is left of one.
type logCopy struct {
	name string
	// read yields the whole entries from a sequence on, in order, over gaps where it can.
	read func(ctx context.Context, from uint64, yield func(ledger.Entry) error) error
	// last, if it is not zero, says that the copy is far away and ends there: it is read only where
	// the others lack something.
	last uint64
	// spare: it is asked for nothing that another copy has, and believed where it continues the chain.
	spare bool
}

// mergedLog is the log that copies have together, read only, once it was measured.
type mergedLog struct {
	readOnly
	copies []*logCopy
	seen   []blocks.Seen // heads that the log must hold
	to     uint64        // last sequence; 0: to the end

	head ledger.Head // of its last commit
}

func (l *mergedLog) Last(context.Context) (uint64, error) { return l.head.Sequence, nil }

func (l *mergedLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	m := l.merger(func(e ledger.Entry) error {
		if e.Sequence < from {
			return nil
		}
		return yield(e)
	})
	return cmp.Or(m.run(ctx, to), m.lacks())
}

// measure reads the whole log once, checks that nothing is missing of it, and tells where it comes from.
func (l *mergedLog) measure(ctx context.Context) error {
	digests := make(map[uint64]ledger.Digest)
	for _, s := range l.seen {
		digests[s.Sequence] = ledger.Digest{}
	}
	m := l.merger(func(e ledger.Entry) error {
		if _, asked := digests[e.Sequence]; asked {
			digests[e.Sequence] = ledger.DigestOf(e.Data)
		}
		return nil
	})
	err := m.run(ctx, l.to)
	l.head = m.links.Head()
	if err == nil && l.head.Sequence == 0 && len(m.missing) == 0 {
		return errors.New("there is not one commit: name copies of the log with --archive")
	}
	if end := furthest(l.seen); err == nil && end.Sequence > l.head.Sequence {
		m.missing = append(m.missing, span{l.head.Sequence + 1, end.Sequence})
		m.reasons = append(m.reasons, fmt.Sprintf("%s knows sequence %d", end.Where, end.Sequence))
	}
	if err := cmp.Or(m.lacks(), err); err != nil {
		return err
	}
	if l.head.Sequence < l.to {
		return fmt.Errorf("nothing comes after sequence %d: the copies end with %d; nothing was changed", l.to, l.head.Sequence)
	}
	for _, s := range l.seen {
		if have := digests[s.Sequence]; s.Sequence > 0 && have != s.Digest {
			return fmt.Errorf("%w: commit %d has the digest %s, and %s knows it with %s; %s",
				blocks.ErrAnother, s.Sequence, have, s.Where, s.Digest, leaveOut)
		}
	}
	for _, c := range m.copies {
		fmt.Printf("%d commits come from %s\n", c.taken, c.name)
	}
	return nil
}

func furthest(seen []blocks.Seen) (end blocks.Seen) {
	for _, s := range seen {
		if s.Sequence > end.Sequence {
			end = s
		}
	}
	return end
}

func (l *mergedLog) merger(yield func(ledger.Entry) error) *merger {
	m := &merger{links: chain.New(ledger.Head{}), yield: yield}
	for _, c := range l.copies {
		m.copies = append(m.copies, &cursor{logCopy: c})
	}
	return m
}

const leaveOut = "nothing was changed. Find out which one is right, and leave the other out (move it away)"

// errFork means that copies have different commits of one sequence.
var errFork = errors.New("the copies are of two histories")

type span struct{ from, to uint64 }

type merger struct {
	copies []*cursor
	links  *chain.Chain
	yield  func(ledger.Entry) error

	doubted string // the copy with the newest entry that does not continue the chain
	// missing are sequences that no copy has; reasons are what copies say of them. lost: the last one
	// is among them, so that it is not known what the next one must continue.
	missing []span
	reasons []string
	lost    bool
}

// run merges the copies up to a sequence, or to their end.
func (m *merger) run(ctx context.Context, to uint64) error {
	defer func() {
		for _, c := range m.copies {
			c.close()
		}
	}()
	for s := uint64(1); to == 0 || s <= to; s++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		best, err := m.pick(ctx, s)
		if err != nil {
			return err
		}
		if best.cursor == nil {
			next := m.next(s)
			if next == 0 {
				break
			}
			if to > 0 {
				next = min(next, to+1)
			}
			m.missing, m.lost = append(m.missing, span{s, next - 1}), true
			s = next - 1
			continue
		}
		if err := m.add(s, best); err != nil {
			return err
		}
	}
	if err := m.links.End(); err != nil {
		return fmt.Errorf("%s: %w", m.doubted, err)
	}
	return nil
}

func (m *merger) add(s uint64, best candidate) error {
	if m.lost {
		_, prev, err := ledger.CommitLink(best.data)
		if best.rank < continues || err != nil {
			return nil // nothing tells what it is
		}
		m.links, m.lost = chain.New(ledger.Head{Sequence: s - 1, Digest: prev}), false
	}
	e := ledger.Entry{Sequence: s, Data: best.data}
	isCommit, err := m.links.NextLink(e)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(m.doubted, best.name), err)
	}
	if !isCommit {
		m.doubted = best.name
	}
	best.taken++
	return m.yield(e)
}

// lacks names what no copy has.
func (m *merger) lacks() error {
	if len(m.missing) == 0 {
		return nil
	}
	var text []string
	for _, s := range m.missing {
		one := fmt.Sprint(s.from)
		if s.to > s.from {
			one += fmt.Sprintf(" to %d", s.to)
		}
		text = append(text, one)
	}
	for _, c := range m.copies {
		if c.err != nil && !errors.Is(c.err, errEnough) {
			m.reasons = append(m.reasons, fmt.Sprintf("%s: %v", c.name, c.err))
		}
	}
	reasons := ""
	if len(m.reasons) > 0 {
		reasons = " (" + strings.Join(m.reasons, "; ") + ")"
	}
	cut := ""
	if good := m.missing[0].from - 1; good > 0 {
		cut = fmt.Sprintf(", or give up the first of these and everything after it: --cut-after %d", good)
	}
	return fmt.Errorf("%w: no copy has the commits %s%s; nothing was changed. Name more copies with --archive or --nats-url%s",
		blocks.ErrDamaged, strings.Join(text, ", "), reasons, cut)
}

// next returns the first sequence after one that a copy may have; 0: there is none.
func (m *merger) next(s uint64) (next uint64) {
	next = math.MaxUint64
	for _, c := range m.copies {
		if c.last > s { // it is not asked for each, as each answer may take long
			c.fails++
			c.wake = min(c.last, s+1<<min(c.fails, 20))
			next = min(next, c.wake)
		}
		if c.last == 0 && c.entry.Sequence > s {
			next = min(next, c.entry.Sequence)
		}
	}
	if next == math.MaxUint64 {
		return 0
	}
	return next
}

// candidate is what a copy has under a sequence.
type candidate struct {
	*cursor // nil: none
	data    []byte
	rank    int
}

// Ranks of candidates.
const (
	foreign   = iota // it is no commit of that sequence
	another          // it is one, and does not continue the chain
	continues        // it does
)

func (m *merger) pick(ctx context.Context, s uint64) (best candidate, err error) {
	fails := 0
	for _, c := range m.copies {
		if c.last > 0 && best.cursor != nil && best.rank == continues || c.spare && best.cursor != nil {
			continue
		}
		data, found := c.at(ctx, s)
		fails += c.fails
		if !found || c.spare && m.rank(s, data) < continues {
			continue
		}
		if best, err = better(s, best, candidate{c, data, m.rank(s, data)}); err != nil {
			return best, err
		}
	}
	if fails > 0 { // those that fail are asked last
		slices.SortStableFunc(m.copies, func(a, b *cursor) int { return cmp.Compare(a.fails, b.fails) })
	}
	return best, nil
}

func (m *merger) rank(s uint64, data []byte) int {
	sequence, prev, err := ledger.CommitLink(data)
	switch {
	case err != nil || sequence != s:
		return foreign
	case prev != m.links.Head().Digest && !m.lost:
		return another
	}
	return continues
}

// better returns the better one of two candidates. Whole copies of a log have the same bytes under each sequence.
func better(s uint64, best, one candidate) (candidate, error) {
	if best.cursor == nil {
		return one, nil
	}
	if best.rank > foreign && one.rank > foreign && !bytes.Equal(best.data, one.data) {
		_, bestErr := ledger.DecodeCommit(best.data)
		_, oneErr := ledger.DecodeCommit(one.data)
		switch {
		case bestErr == nil && oneErr == nil:
			return best, fmt.Errorf("%w: commit %d has the digest %s in %s, and %s in %s; %s", errFork, s,
				ledger.DigestOf(best.data), best.name, ledger.DigestOf(one.data), one.name, leaveOut)
		case bestErr == nil:
			return best, nil
		case oneErr == nil:
			return one, nil
		}
	}
	if one.rank > best.rank {
		return one, nil
	}
	return best, nil
}

type cursor struct {
	*logCopy
	taken int

	next  func() (ledger.Entry, bool) // nil: it is not being read
	stop  func()
	entry ledger.Entry // where it stands
	err   error        // why the last read ended

	fails int    // reads of what is far away that failed
	wake  uint64 // it is not asked before this sequence
}

// at returns what the copy has under a sequence, until the next call, for which the sequence is greater.
func (c *cursor) at(ctx context.Context, s uint64) (data []byte, found bool) {
	far := c.last > 0
	if far && (s > c.last || s < c.wake) {
		return nil, false
	}
	if c.next == nil || far && s > c.entry.Sequence+1 {
		c.open(ctx, s)
	}
	for c.entry.Sequence < s {
		e, more := c.next()
		if !more {
			if far { // it may have what comes later
				c.close()
				c.fails++
			}
			return nil, false
		}
		c.entry = e
	}
	return c.entry.Data, c.entry.Sequence == s
}

func (c *cursor) open(ctx context.Context, from uint64) {
	c.close()
	c.entry = ledger.Entry{Sequence: from - 1}
	last := from - 1
	c.next, c.stop = iter.Pull(func(yield func(ledger.Entry) bool) {
		c.err = c.read(ctx, from, func(e ledger.Entry) error {
			if e.Sequence <= last {
				return nil
			}
			if last = e.Sequence; !yield(e) {
				return errEnough
			}
			return nil
		})
	})
}

func (c *cursor) close() {
	if c.next != nil {
		c.stop()
		c.next, c.stop = nil, nil
	}
}
