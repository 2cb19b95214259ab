package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/background"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// Config says what is archived, and where to.
type Config struct {
	Archives []*Archive
	Ledger   ledger.UUID
	Log      ledger.Log
	// Head returns the head of the newest commit that may be archived: it is
	// durable, and is not taken back.
	Head func() ledger.Head
	// Sign signs the checkpoint of a part's last commit, which goes into the part;
	// nil, or if it returns nothing: there is no key.
	Sign   func(*proof.Checkpoint) ([]byte, error)
	Tiles  *Tiles // nil: none are written
	Bounds Bounds
	Rate   int64  // bytes of the log that are read a second; 0: as fast as it goes
	Folder string // for parts that are being packed
	// Seal ends a part at the end of the log, too, whatever the Bounds say.
	Seal  bool
	Every time.Duration
	// Progress, if set, is told how far an archive has come, after each part: the
	// sequence, of how many.
	Progress func(done, total uint64)
	Now      func() time.Time
	Logger   *slog.Logger
}

// Status says how far an archive has come.
type Status struct {
	Archive  string
	Verified ledger.Head // everything up to there was read back
	Parts    int         // in the archive
	Bytes    int64       // of these
	Commits  uint64      // that are not in the archive
	LogBytes int64       // of these, as far as they were read
	Since    time.Time   // when the oldest of these was decided; zero: unknown, or there are none
	Failures uint64      // since the start
	Success  time.Time   // when a part was last verified; zero: not since the start
	Fault    string      // why nothing is archived now; empty: nothing is wrong
}

// Archiver writes a log into archives in the background. Each archive goes its
// own way: one that is away holds up no other.
type Archiver struct{ uploaders []*uploader }

// Backup brings archives up to the end of the log, once.
func Backup(ctx context.Context, cfg Config) ([]Status, error) {
	cfg.Seal = true
	a := newArchiver(cfg)
	for _, c := range a.uploaders {
		defer c.packer.close()
		if err := c.work(ctx); err != nil {
			return a.Status(), err
		}
	}
	return a.Status(), nil
}

// Start starts an Archiver.
func Start(cfg Config) *Archiver {
	a := newArchiver(cfg)
	for _, c := range a.uploaders {
		c.worker = background.Start(background.Work{
			Do: c.work, Every: cfg.Every, FirstPause: firstPause, LongestPause: longestPause,
			Failed: func(err error, again time.Duration) {
				cfg.Logger.Error("the archive takes nothing now; the log keeps everything meanwhile",
					"archive", c.archive.String(), "error", err, "again_in", again)
			},
			Passed: func() { cfg.Logger.Info("the archive takes parts again", "archive", c.archive.String()) },
		})
	}
	return a
}

func newArchiver(cfg Config) *Archiver {
	a, pace := new(Archiver), paceOf(cfg.Rate)
	for _, one := range cfg.Archives {
		a.uploaders = append(a.uploaders, &uploader{
			archive: one, cfg: cfg, packer: &packer{cfg: cfg, pace: pace},
			tiles: tiler{Tiles: cfg.Tiles, archive: one, folder: cfg.Folder},
		})
	}
	return a
}

// Stop ends the Archiver; a second time it does nothing. What is half written is
// written again by the next one.
func (a *Archiver) Stop() {
	var workers []*background.Worker
	for _, c := range a.uploaders {
		workers = append(workers, c.worker)
	}
	background.Stop(workers...)
	for _, c := range a.uploaders {
		c.packer.close()
	}
}

// Status says how far each archive has come.
func (a *Archiver) Status() []Status {
	list := make([]Status, len(a.uploaders))
	for i, c := range a.uploaders {
		list[i] = c.get()
	}
	return list
}

// uploader brings the parts of a log to one archive.
type uploader struct {
	archive *Archive
	cfg     Config
	packer  *packer
	worker  *background.Worker // nil: of a Backup

	tiles tiler

	ready bool
	at    Position

	mu     sync.Mutex
	status Status // guarded by mu
}

func (c *uploader) get() Status {
	c.mu.Lock()
	s := c.status
	c.mu.Unlock()
	if c.worker != nil {
		s.Failures, s.Fault = c.worker.Failures()
	}
	s.Archive = c.archive.String()
	s.Parts, s.Bytes = c.archive.Stored()
	if head := c.cfg.Head().Sequence; head > s.Verified.Sequence {
		s.Commits = head - s.Verified.Sequence
		bytes, since := c.packer.waiting()
		s.LogBytes = bytes
		if since > 0 {
			s.Since = time.Unix(0, since)
		}
	}
	return s
}

// Pauses after failures.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// work archives all that is due.
func (c *uploader) work(ctx context.Context) error {
	if !c.ready {
		if err := c.archive.Belongs(ctx, c.cfg.Ledger, true); err != nil {
			return err
		}
		if err := c.archive.Refresh(ctx); err != nil {
			return err
		}
		if err := c.find(ctx); err != nil {
			return err
		}
		c.ready = true
		c.cfg.Logger.Info("archiving", "archive", c.archive.String(), "sequence", c.at.Sequence, "records", c.at.Tree.Size())
	}
	for {
		_, later := c.archive.next(c.at.Sequence + 1) // where a part begins behind a gap; 0: there is no gap
		part, err := c.packer.next(ctx, c.at, later)
		if err == nil && part == nil {
			return c.tiles.publish(ctx, c.at.Sequence)
		}
		if err != nil {
			return err
		}
		if err := c.bring(ctx, part); err != nil {
			return err
		}
		c.verified()
		if later > 0 && later == c.at.Sequence+1 {
			c.ready = false // the gap is closed: see how far it goes from here
			return c.work(ctx)
		}
	}
}

// bring brings a part to the archive, or takes the one that is there.
func (c *uploader) bring(ctx context.Context, part *sealed) error {
	there, err := c.adopt(ctx, part.First)
	if err != nil || there {
		return err
	}
	if err := c.put(ctx, part); err != nil {
		return err
	}
	c.at = part.after
	return nil
}

// adopt takes a good part that another server, or a backup, has written
// meanwhile, so that each commit is in the archive once.
func (c *uploader) adopt(ctx context.Context, first uint64) (there bool, err error) {
	names, err := c.archive.look(ctx, first)
	if err != nil || len(names) == 0 {
		return false, err
	}
	file, err := scratch(c.cfg.Folder)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // it is not read any more
	for _, name := range names {
		header, trailer, err := c.archive.get(ctx, name, file)
		if errors.Is(err, ErrPart) {
			continue // it is written again
		}
		if err != nil {
			return false, err
		}
		position := Position{trailer.Head, trailer.Tree}
		if header.Ledger != c.cfg.Ledger || header.Prev != c.at.Digest {
			return false, fmt.Errorf("%w: %s/%s does not follow commit %d of this ledger", ErrFork, c.archive, name, c.at.Sequence)
		}
		if err := c.agrees(ctx, position); err != nil {
			return false, err
		}
		c.at = position
		return true, nil
	}
	return false, nil
}

func (c *uploader) verified() {
	c.mu.Lock()
	c.status.Verified, c.status.Success = c.at.Head, c.cfg.Now()
	c.mu.Unlock()
	if c.cfg.Progress != nil {
		c.cfg.Progress(c.at.Sequence, c.cfg.Head().Sequence)
	}
}

// find finds how far the archive goes without a gap, and reads its last part for
// the position. The log must agree with it.
func (c *uploader) find(ctx context.Context) error {
	names, gap := c.archive.walk(0)
	if gap > 0 {
		c.cfg.Logger.Error("the archive lacks a part, and gets it again", "archive", c.archive.String(), "before", gap)
	}
	file, err := scratch(c.cfg.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it is not read any more
	for i := len(names) - 1; i >= 0; i-- {
		position, err := c.archive.position(ctx, names[i], file)
		if errors.Is(err, ErrPart) {
			c.cfg.Logger.Error("a part is damaged, and is written again", "error", err)
			continue
		}
		if err == nil {
			err = c.agrees(ctx, position)
		}
		if err != nil {
			return err
		}
		c.at = position
		c.verified()
		return nil
	}
	c.at = Beginning()
	return nil
}

// agrees checks that the log goes on where the archive ends.
func (c *uploader) agrees(ctx context.Context, p Position) error {
	if head := c.cfg.Head(); head.Sequence < p.Sequence {
		return fmt.Errorf("%w: %s goes up to sequence %d, and the log to %d only: the log was set back, or the archive is that of a copy",
			ErrFork, c.archive, p.Sequence, head.Sequence)
	}
	return c.cfg.Log.Read(ctx, p.Sequence, p.Sequence, func(e ledger.Entry) error {
		if got := ledger.DigestOf(e.Data); got != p.Digest {
			return fmt.Errorf("%w: commit %d has the digest %.8s in the log, and %.8s in %s", ErrFork, p.Sequence, got, p.Digest, c.archive)
		}
		return nil
	})
}

// put writes a part, unless it is there, and reads it back. A damaged one of the
// same name is left alone, and a copy is written beside it.
func (c *uploader) put(ctx context.Context, part *sealed) error {
	back, err := scratch(c.cfg.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = back.Close() }() // it is not read any more
	for name := part.Name; name.Copy <= maxCopies; name.Copy++ {
		err := c.archive.store.Create(ctx, name.String(), part.file, part.size)
		if err != nil && !errors.Is(err, bucket.ErrExists) {
			return fmt.Errorf("%s: %w", c.archive, err)
		}
		good, size, err := c.same(ctx, name, part, back)
		if err == nil && !good {
			good, size, err = c.same(ctx, name, part, back) // the way back may have damaged it
		}
		if err != nil {
			return err
		}
		if !good {
			c.cfg.Logger.Error("a part that was read back is not what was written; it is written again beside it",
				"archive", c.archive.String(), "part", name.String())
			continue
		}
		c.archive.add(name, size)
		c.cfg.Logger.Debug("archived", "archive", c.archive.String(), "part", name.String(), "bytes", size)
		return nil
	}
	return fmt.Errorf("%w: %s/%s and all its copies", ErrPart, c.archive, part.Name)
}

// same reads a part back and reports whether it holds what was packed.
func (c *uploader) same(
	ctx context.Context, name Name, part *sealed, back *os.File,
) (good bool, size int64, err error) {
	sum, size, err := c.archive.fetch(ctx, name, back)
	if err != nil || sum == part.sum {
		return err == nil, size, err
	}
	// Another server has written it, with another signature, or it is damaged.
	header, trailer, err := check(name, back, logfile.ReadLinks, discard)
	return err == nil && header.Ledger == c.cfg.Ledger && trailer.Head == part.Last, size, nil
}
