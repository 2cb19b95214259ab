package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// Bounds say where a part ends: after the commit with which it has so many
// records or bytes, or before the first commit that is so much younger than its
// first one. So the log alone decides, on every server and at any time.
type Bounds struct {
	Records int64
	Bytes   int64 // of encoded commits
	Age     time.Duration
}

// sealed is a part in a file, ready to be sent.
type sealed struct {
	Name
	file  *os.File
	size  int64
	sum   [sha256.Size]byte
	after Position

	users   int  // of the file; guarded by the packer's mu
	dropped bool // the last user closes the file; guarded by the packer's mu
}

// packer packs parts of a log. Archives that stand at the same place share what is
// packed.
type packer struct {
	cfg  Config
	pace *rate.Limiter // bytes of the log that are read

	mu     sync.Mutex
	open   map[uint64]*packing // by the sequence before; guarded by mu
	done   []*sealed           // the newest last; guarded by mu
	before map[*sealed]uint64  // sequence before each; guarded by mu
}

// keptSealed is how many sealed parts are kept for archives that are behind. They
// can be packed again.
const keptSealed = 2

func newPacker(cfg Config) *packer {
	s := &packer{cfg: cfg, open: make(map[uint64]*packing), before: make(map[*sealed]uint64)}
	s.pace = rate.NewLimiter(rate.Inf, 0)
	if cfg.Rate > 0 {
		s.pace = rate.NewLimiter(rate.Limit(cfg.Rate), paceStep)
	}
	return s
}

// paceStep is how many bytes are read at once between two pauses.
const paceStep = 1 << 20

// next returns the part after a position; nil: it is not due. It ends before a
// sequence; 0: where the Bounds say. The caller releases it.
func (s *packer) next(ctx context.Context, from Position, before uint64) (*sealed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, done := range s.done {
		if s.before[done] == from.Sequence && (before == 0 || done.Last.Sequence < before) {
			done.users++
			return done, nil
		}
	}
	p := s.open[from.Sequence]
	if p == nil || p.before != before {
		s.abandon(from.Sequence)
		var err error
		if p, err = s.begin(ctx, from, before); p == nil || err != nil {
			return nil, err
		}
		s.open[from.Sequence] = p
	}
	full, err := p.feed(ctx, s)
	if err != nil || !full {
		if err != nil && ctx.Err() == nil {
			s.abandon(from.Sequence) // what was packed may be half of something
		}
		return nil, err
	}
	delete(s.open, from.Sequence)
	done, err := p.seal(s.cfg)
	if err != nil {
		p.abandon()
		return nil, err
	}
	done.users++
	s.done, s.before[done] = append(s.done, done), from.Sequence
	for len(s.done) > keptSealed {
		s.drop(s.done[0])
	}
	return done, nil
}

// waiting returns what is packed after a sequence and not sealed yet: commits,
// bytes, and when the first was decided.
func (s *packer) waiting(after uint64) (commits uint64, bytes int64, since int64) {
	if !s.mu.TryLock() {
		return 0, 0, 0 // a part is being packed now
	}
	defer s.mu.Unlock()
	p := s.open[after]
	if p == nil {
		return 0, 0, 0
	}
	return p.count, p.bytes, p.firstTime
}

// release gives a part back that next has returned.
func (s *packer) release(part *sealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part.users--
	part.closeUnused()
}

// closeUnused closes the file of a part that was dropped, once no caller sends it any
// more.
func (p *sealed) closeUnused() {
	if p.dropped && p.users == 0 {
		_ = p.file.Close() // it was only read since it was synced
	}
}

func (s *packer) drop(done *sealed) {
	done.dropped = true
	done.closeUnused()
	delete(s.before, done)
	s.done = slices.DeleteFunc(s.done, func(d *sealed) bool { return d == done })
}

func (s *packer) abandon(after uint64) {
	if p := s.open[after]; p != nil {
		p.abandon()
		delete(s.open, after)
	}
}

// close frees everything.
func (s *packer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for after := range s.open {
		s.abandon(after)
	}
	for len(s.done) > 0 {
		s.drop(s.done[0])
	}
}

// packing is a part that is being packed.
type packing struct {
	first     uint64
	before    uint64 // it ends before this sequence; 0: where the Bounds say
	after     Position
	file      *os.File
	w         *logfile.Writer
	chain     *chain.Chain
	held      []ledger.Entry // after the last commit; a later commit decides about them
	count     uint64         // commits
	records   int64
	bytes     int64
	firstTime int64
	full      bool
}

// begin begins a part if there is a commit for it.
func (s *packer) begin(ctx context.Context, from Position, before uint64) (*packing, error) {
	if s.cfg.Head().Sequence <= from.Sequence {
		return nil, nil
	}
	file, err := scratch(s.cfg.Folder)
	if err != nil {
		return nil, err
	}
	w, err := logfile.NewPart(file, logfile.Header{Ledger: s.cfg.Ledger, First: from.Sequence + 1, Prev: from.Digest})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &packing{
		first: from.Sequence + 1, before: before, after: Position{from.Head, from.Tree.Copy()}, file: file, w: w,
		chain: chain.New(from.Head),
	}, ctx.Err()
}

// scratch makes a file without a name, so that nothing stays of it when the
// process is killed: it can be made again.
func scratch(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "part-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (p *packing) abandon() {
	p.w.Abandon()
	_ = p.file.Close() // it is not read
}

var errFull = errors.New("archives: the part is full")

// feed packs what the log has by now. It reports whether the part is full.
func (p *packing) feed(ctx context.Context, s *packer) (full bool, err error) {
	to := s.cfg.Head().Sequence
	if p.before > 0 {
		to = min(to, p.before-1)
	}
	if next := p.next(); !p.full && next <= to {
		err := s.cfg.Log.Read(ctx, next, to, func(e ledger.Entry) error {
			if err := s.wait(ctx, len(e.Data)); err != nil {
				return err
			}
			return p.add(e, s.cfg.Bounds)
		})
		if err != nil && !errors.Is(err, errFull) {
			return false, err
		}
	}
	if p.count == 0 {
		return false, nil
	}
	// Later commits are younger than now, so no other server would put them here.
	old := s.cfg.Now().UnixNano()-p.firstTime >= int64(s.cfg.Bounds.Age)
	return p.full || old || s.cfg.Seal || p.before > 0 && p.after.Sequence == p.before-1, nil
}

// wait keeps to the packer's pace.
func (s *packer) wait(ctx context.Context, bytes int) error { return wait(ctx, s.pace, bytes) }

// wait keeps to a pace.
func wait(ctx context.Context, pace *rate.Limiter, bytes int) error {
	for ; bytes > paceStep; bytes -= paceStep {
		if err := pace.WaitN(ctx, paceStep); err != nil {
			return err
		}
	}
	return pace.WaitN(ctx, bytes)
}

func (p *packing) next() uint64 { return p.w.Next() + uint64(len(p.held)) }

// add packs an entry. It fails with errFull if the part is full, with or without
// the entry.
func (p *packing) add(e ledger.Entry, bounds Bounds) error {
	commit, err := p.chain.Next(e)
	if err != nil {
		return err
	}
	if commit == nil {
		p.held = append(p.held, ledger.Entry{Sequence: e.Sequence, Data: slices.Clone(e.Data)})
		return nil
	}
	first, last := commit.Records[0].Time, commit.Records[len(commit.Records)-1].Time
	if p.count > 0 && last-p.firstTime >= int64(bounds.Age) {
		p.full = true
		return errFull
	}
	for _, held := range append(p.held, e) {
		if err := p.w.AddLinked(held); err != nil {
			return err
		}
	}
	if p.count == 0 {
		p.firstTime = first
	}
	p.held = nil
	p.count++
	p.records += int64(len(commit.Records))
	p.bytes += int64(len(e.Data))
	p.after.Head = commit.Head()
	p.after.Tree.Add(commit.Leaves)
	if p.records >= bounds.Records || p.bytes >= bounds.Bytes {
		p.full = true
		return errFull
	}
	return nil
}

// seal ends the part.
func (p *packing) seal(cfg Config) (*sealed, error) {
	var signed [][]byte
	if cfg.Sign != nil {
		one, err := cfg.Sign(&proof.Checkpoint{
			Ledger: cfg.Ledger, Size: p.after.Tree.Size(), Root: p.after.Tree.Root(), Head: p.after.Head,
		})
		if err != nil {
			return nil, err
		}
		if len(one) > 0 {
			signed = append(signed, one)
		}
	}
	if err := p.w.End(signed, p.after.Tree); err != nil {
		return nil, err
	}
	done := &sealed{Name: Name{First: p.first, Last: p.after.Head}, file: p.file, after: p.after}
	hash := sha256.New()
	_, err := p.file.Seek(0, io.SeekStart)
	if err == nil {
		done.size, err = io.Copy(hash, p.file)
	}
	if err != nil {
		return nil, fmt.Errorf("the packed part cannot be read: %w", err)
	}
	copy(done.sum[:], hash.Sum(nil))
	return done, nil
}
