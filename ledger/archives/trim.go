package archives

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger"
)

// Rollable is a hot log that can be sealed in pieces, of which the oldest can
// leave.
type Rollable interface {
	Hot
	// Roll seals what the log holds since it was last sealed. known is the head of
	// a commit in that. It fails with ErrLater if that needs more commits.
	Roll(ctx context.Context, known ledger.Head) error
	// Sealed returns the last sequence of each sealed piece, oldest first.
	Sealed() []uint64
	// Drop drops the oldest piece, which ends with a sequence.
	Drop(ctx context.Context, last uint64) error
}

// TrimConfig says what stays in a hot log, and where everything else must be.
type TrimConfig struct {
	Hot      Rollable
	Archives []*Archive
	Ledger   ledger.UUID
	Head     func() ledger.Head // of the newest durable commit
	Commits  uint64             // that stay at least; 0: the age alone decides
	Age      time.Duration      // younger commits stay; 0: the number alone decides
	// Replayed returns the sequence after which a start would replay the log. What
	// is after it stays, so that a start needs no archive.
	Replayed func() (uint64, error)
	Rate     int64  // bytes of the log that are compared a second; 0: as fast as it goes
	Folder   string // for parts that are read back
	Every    time.Duration
	Now      func() time.Time
	Logger   *slog.Logger
}

// pieces is into how many pieces the log is sealed that is to stay. Only a whole
// piece leaves, so a hot log is larger than it must be by one piece.
const pieces = 4

// mostPieces is how many sealed pieces there are at most, while nothing can leave: each
// is a stream, of several servers a Raft group. Then the rest of the log grows in one
// piece, which is sealed when others have left.
const mostPieces = 32

// ErrUnbounded means that a hot log cannot be trimmed, because there is no archive,
// or something that says what stays is missing.
var ErrUnbounded = errors.New("archives: a log is trimmed only with archives, and with a bound")

// ErrLater means that a hot log could not be sealed yet, and that nothing is wrong.
var ErrLater = errors.New("archives: it is sealed later")

// Trimmer keeps a hot log within bounds, in the background.
type Trimmer struct {
	cfg  TrimConfig
	pace *rate.Limiter
	stop context.CancelFunc
	idle sync.WaitGroup

	mu    sync.Mutex
	state TrimStatus // guarded by mu
}

// TrimStatus says what a Trimmer has done since it was started.
type TrimStatus struct {
	Commits uint64 // that have left
	Records uint64 // of these
	Bytes   uint64 // of these
	Fault   string // why nothing leaves now; empty: nothing is wrong
}

// Status says what has left.
func (t *Trimmer) Status() TrimStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// fault notes why nothing leaves, and reports whether that is new.
func (t *Trimmer) fault(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Fault == text {
		return false
	}
	t.state.Fault = text
	return true
}

// Trim starts a Trimmer.
func Trim(cfg TrimConfig) (*Trimmer, error) {
	t, err := NewTrimmer(cfg)
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(context.Background())
	t.idle.Go(func() { t.run(ctx) })
	return t, nil
}

// NewTrimmer returns a Trimmer that does nothing by itself.
func NewTrimmer(cfg TrimConfig) (*Trimmer, error) {
	if len(cfg.Archives) == 0 || cfg.Replayed == nil || cfg.Commits == 0 && cfg.Age <= 0 {
		return nil, ErrUnbounded
	}
	t := &Trimmer{cfg: cfg, pace: rate.NewLimiter(rate.Inf, 0)}
	if cfg.Rate > 0 {
		t.pace = rate.NewLimiter(rate.Limit(cfg.Rate), paceStep)
	}
	return t, nil
}

// Stop ends the Trimmer. What it was about to do it does after the next start.
func (t *Trimmer) Stop() {
	t.stop()
	t.idle.Wait()
}

func (t *Trimmer) run(ctx context.Context) {
	pause := firstPause
	for {
		wait := t.cfg.Every
		err := t.Work(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait, pause = pause, min(2*pause, lastPause)
			switch told := t.fault(err.Error()); {
			case told && errors.Is(err, errBehind):
				t.cfg.Logger.Info("what is to leave the hot log waits for an archive", "reason", err)
			case told:
				t.cfg.Logger.Error("nothing leaves the hot log now; it keeps everything meanwhile", "error", err, "again_in", wait)
			}
		} else {
			pause = firstPause
			t.fault("")
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Work seals and drops what is due.
func (t *Trimmer) Work(ctx context.Context) error {
	head := t.cfg.Head()
	due, err := t.sealDue(ctx, head)
	if err == nil && due {
		if err = t.cfg.Hot.Roll(ctx, head); err == nil {
			t.cfg.Logger.Info("a part of the hot log is sealed", "after", head.Sequence)
		}
		if errors.Is(err, ErrLater) {
			err = nil
		}
	}
	for err == nil {
		sealed := t.cfg.Hot.Sealed()
		if len(sealed) == 0 {
			return nil
		}
		if due, err = t.leaveDue(ctx, sealed[0], head); err != nil || !due {
			return err
		}
		err = t.leave(ctx, sealed[0])
	}
	return err
}

// sealDue reports whether what was appended since the last seal makes a piece.
func (t *Trimmer) sealDue(ctx context.Context, head ledger.Head) (bool, error) {
	first, sealed := t.cfg.Hot.First(), t.cfg.Hot.Sealed()
	if len(sealed) > 0 {
		first = sealed[len(sealed)-1] + 1
	}
	if head.Sequence < first || len(sealed) >= mostPieces {
		return false, nil
	}
	if n := t.cfg.Commits; n > 0 && head.Sequence-first+1 >= max(n/pieces, 1) {
		return true, nil
	}
	if t.cfg.Age == 0 {
		return false, nil
	}
	return t.older(ctx, first, head.Sequence, t.cfg.Age/pieces)
}

// leaveDue reports whether the piece that ends with a sequence need not stay.
func (t *Trimmer) leaveDue(ctx context.Context, last uint64, head ledger.Head) (bool, error) {
	// A hot log without a commit would have nothing that heads can be compared with.
	if head.Sequence < last+max(t.cfg.Commits, 1) {
		return false, nil
	}
	if t.cfg.Age > 0 {
		if old, err := t.older(ctx, last, head.Sequence, t.cfg.Age); err != nil || !old {
			return false, err
		}
	}
	replayed, err := t.cfg.Replayed()
	return replayed >= last, err
}

// older reports whether the first commit in a range is older than an age. Entries
// that are no commits have no age.
func (t *Trimmer) older(ctx context.Context, from, to uint64, age time.Duration) (old bool, err error) {
	err = t.cfg.Hot.Read(ctx, from, to, func(e ledger.Entry) error {
		commit, err := ledger.DecodeCommit(e.Data)
		if err != nil || commit.Sequence != e.Sequence {
			return nil // it is foreign
		}
		old = t.cfg.Now().UnixNano()-commit.Records[len(commit.Records)-1].Time >= int64(age)
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return old, err
}

// leave drops the oldest piece, once all archives have every byte of it.
func (t *Trimmer) leave(ctx context.Context, last uint64) error {
	// A piece that all archives had before, and that may be gone or not, is dropped again.
	first := min(t.cfg.Hot.First(), last+1)
	var compared *sum
	for _, a := range t.cfg.Archives {
		var err error
		if compared, err = t.confirm(ctx, a, first, last); err != nil {
			return err
		}
	}
	if err := t.cfg.Hot.Drop(ctx, last); err != nil {
		return err
	}
	t.mu.Lock()
	t.state.Commits += compared.entries
	t.state.Records += compared.records
	t.state.Bytes += compared.bytes
	t.mu.Unlock()
	t.cfg.Logger.Info("a part of the hot log has left: all archives have it, as was verified just now", "first", first, "last", last,
		"records", compared.records, "bytes", compared.bytes)
	return nil
}

// errBehind means that an archive has not got so far.
var errBehind = fmt.Errorf("%w yet", ErrMissing)

// confirm reads back the parts of an archive that hold a range, and compares them
// with the hot log, byte for byte. It returns what it compared. The archive must
// also still have everything before.
func (t *Trimmer) confirm(ctx context.Context, a *Archive, first, last uint64) (*sum, error) {
	if err := a.Belongs(ctx, t.cfg.Ledger, false); err != nil {
		return nil, err
	}
	if err := a.Refresh(ctx); err != nil {
		return nil, err
	}
	names, gap := a.walk(0)
	have, compared := uint64(0), newSum()
	for _, name := range names {
		if name.First > last {
			break
		}
		if name.Last.Sequence >= first {
			one, err := t.confirmPart(ctx, a, name, max(first, name.First), min(last, name.Last.Sequence))
			if err != nil {
				return nil, err
			}
			compared.take(one)
		}
		have = name.Last.Sequence
	}
	if have < last && gap == 0 {
		return nil, fmt.Errorf("%w: %s goes up to sequence %d, and what is up to %d is to leave", errBehind, a, have, last)
	}
	if have < last {
		return nil, fmt.Errorf("%w: %s goes up to sequence %d only, and the hot log is to give up what is up to %d", ErrMissing, a, have, last)
	}
	if compared.entries != last-first+1 {
		return nil, fmt.Errorf("%w: %d entries of %s were compared, and the sequences %d to %d are to leave", ErrMissing, compared.entries, a,
			first, last)
	}
	return compared, nil
}

// confirmPart compares the entries of a range with one good copy of a part.
func (t *Trimmer) confirmPart(
	ctx context.Context, a *Archive, name Name, first, last uint64,
) (compared *sum, err error) {
	file, err := scratch(t.cfg.Folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nobody reads it any more
	for _, same := range a.copies(name) {
		header, _, failed := a.get(ctx, same, file)
		if errors.Is(failed, ErrPart) {
			err = failed
			continue
		}
		if failed != nil {
			return nil, failed
		}
		if header.Ledger != t.cfg.Ledger {
			return nil, fmt.Errorf("%w: %s/%s is of the ledger %s, and not %s", ErrOther, a, same, header.Ledger, t.cfg.Ledger)
		}
		return t.compare(ctx, a, same, file, first, last)
	}
	return nil, err
}

func (t *Trimmer) compare(ctx context.Context, a *Archive, name Name, file *os.File, first, last uint64) (*sum, error) {
	archived, hot := newSum(), newSum()
	_, _, err := check(name, file, readLinks, func(e ledger.Entry) error {
		if e.Sequence >= first && e.Sequence <= last {
			archived.add(e)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s/%s: %w", ErrPart, a, name, err)
	}
	err = t.cfg.Hot.Read(ctx, first, last, func(e ledger.Entry) error {
		hot.add(e)
		return wait(ctx, t.pace, len(e.Data))
	})
	if err != nil {
		return nil, err
	}
	if archived.entries != hot.entries || string(archived.Sum(nil)) != string(hot.Sum(nil)) {
		return nil, fmt.Errorf("%w: the sequences %d to %d in %s/%s are not those of the log", ErrFork, first, last, a, name)
	}
	return hot, nil
}

// sum is the sum of entries.
type sum struct {
	hash.Hash
	entries, records, bytes uint64
}

func newSum() *sum { return &sum{Hash: sha256.New()} }

func (s *sum) add(e ledger.Entry) {
	var head [16]byte
	binary.BigEndian.PutUint64(head[:], e.Sequence)
	binary.BigEndian.PutUint64(head[8:], uint64(len(e.Data)))
	_, _ = s.Write(head[:]) // a hash.Hash never fails
	_, _ = s.Write(e.Data)
	s.entries++
	s.bytes += uint64(len(e.Data))
	if n, err := ledger.CommitRecords(e.Data); err == nil { // else it is foreign
		s.records += uint64(n)
	}
}

// take counts what another sum has counted.
func (s *sum) take(other *sum) {
	s.entries += other.entries
	s.records += other.records
	s.bytes += other.bytes
}
