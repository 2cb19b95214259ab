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
}

type packer struct {
	cfg  Config
	pace *rate.Limiter // bytes of the log that are read, for all archives

	mu   sync.Mutex
	open *packing // nil: none; guarded by mu
	done *sealed  // until the next one is begun, so that it can be sent again; nil: none; guarded by mu
}

// paceOf is the pace of so many bytes a second; 0: as fast as it goes.
func paceOf(bytes int64) *rate.Limiter {
	if bytes > 0 {
		return rate.NewLimiter(rate.Limit(bytes), paceStep)
	}
	return rate.NewLimiter(rate.Inf, 0)
}

// paceStep is how many bytes are read at once between two pauses.
const paceStep = 1 << 20

// next returns the part after a position, until it is called again; nil: it is not due. It ends
// before a sequence; 0: where the Bounds say.
func (s *packer) next(ctx context.Context, from Position, before uint64) (*sealed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := from.Sequence + 1
	if s.done != nil && s.done.First == first && (before == 0 || s.done.Last.Sequence < before) {
		return s.done, nil
	}
	if s.open == nil || s.open.first != first || s.open.before != before {
		s.abandon()
		var err error
		if s.open, err = s.begin(ctx, from, before); s.open == nil || err != nil {
			return nil, err
		}
	}
	full, err := s.open.feed(ctx, s)
	if err != nil || !full {
		if err != nil && ctx.Err() == nil {
			s.abandon() // what was packed may be half of something
		}
		return nil, err
	}
	done, err := s.open.seal(s.cfg)
	if err != nil {
		s.abandon()
		return nil, err
	}
	s.open, s.done = nil, done
	return done, nil
}

// waiting returns how many bytes are packed and not sealed yet, and when the first of their
// commits was decided.
func (s *packer) waiting() (bytes, since int64) {
	if !s.mu.TryLock() {
		return 0, 0 // a part is being packed now
	}
	defer s.mu.Unlock()
	if s.open == nil {
		return 0, 0
	}
	return s.open.bytes, s.open.firstTime
}

func (s *packer) abandon() {
	if s.open != nil {
		s.open.abandon()
	}
	if s.done != nil {
		_ = s.done.file.Close() // it was only read since it was synced
	}
	s.open, s.done = nil, nil
}

func (s *packer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandon()
}

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
	header := logfile.Header{Ledger: s.cfg.Ledger, First: from.Sequence + 1, Prev: from.Digest}
	w, err := logfile.NewWriter(file, header, logfile.Part)
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
			if err := wait(ctx, s.pace, len(e.Data)); err != nil {
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
