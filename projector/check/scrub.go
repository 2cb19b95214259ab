package check

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// ScrubberConfig says what a Scrubber reads, and how fast.
type ScrubberConfig struct {
	// Log are the log's files; nil: it is not on this machine.
	Log *blocks.Folder
	// Whole reports whether the log's files hold what was folded, and another
	// server is not filling them; nil: they always do.
	Whole     func() bool
	Views     *projector.Projector
	Snapshots string // folder of the snapshots
	// BytesPerSecond is how fast it reads, if that ends a round within half of Every;
	// otherwise it reads as fast as that takes.
	BytesPerSecond int64
	// Every lies between the beginnings of two rounds.
	Every  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

// ScrubStatus is the progress of a Scrubber.
type ScrubStatus struct {
	Rounds int       `json:"rounds"` // finished rounds
	Begun  time.Time `json:"begun"`  // of the round under way, or of the last one
	Ended  time.Time `json:"ended"`  // of the last round; zero: there was none yet
	Bytes  int64     `json:"bytes"`  // read in the round under way, or in the last one
	Total  int64     `json:"total"`  // to read, as of the round's beginning
	// Damage is what the last whole round found, or the round under way so far:
	// one line each, at most maxListed.
	Damage []string `json:"damage"`
	// Found is the number of damaged places.
	Found int `json:"found"`
}

// maxListed is how many damaged places are listed.
const maxListed = 100

// Good reports whether no damage was found.
func (s ScrubStatus) Good() bool { return s.Found == 0 }

// Scrubber reads the files on the disk again, slowly and in the background: those
// of the log, the read models and the snapshots. So damage is found before
// anything needs the data, while a backup or a replica still has it.
type Scrubber struct {
	cfg  ScrubberConfig
	pace *rate.Limiter
	stop context.CancelFunc
	idle sync.WaitGroup

	mu     sync.Mutex
	status ScrubStatus // guarded by mu
	found  int         // in the round under way; guarded by mu
	listed []string
}

// NewPace holds up a reader of more than so many bytes a second.
func NewPace(bytesPerSecond int64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(bytesPerSecond), int(max(bytesPerSecond, blocks.PaceBytes)))
}

// StartScrubber begins with a round.
func StartScrubber(cfg ScrubberConfig) *Scrubber {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Scrubber{
		cfg: cfg, stop: cancel,
		pace: NewPace(cfg.BytesPerSecond),
	}
	s.idle.Go(func() { s.loop(ctx) })
	return s
}

// Stop ends the process.
func (s *Scrubber) Stop() {
	s.stop()
	s.idle.Wait()
}

// Status returns the Scrubber's progress.
func (s *Scrubber) Status() ScrubStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Damage = append([]string{}, status.Damage...)
	return status
}

func (s *Scrubber) loop(ctx context.Context) {
	for {
		begun := time.Now()
		s.round(ctx)
		select {
		case <-time.After(s.cfg.Every - time.Since(begun)):
		case <-ctx.Done():
			return
		}
	}
}

func (s *Scrubber) round(ctx context.Context) {
	s.begin()
	for _, part := range []struct {
		what string
		read func(context.Context) error
	}{{"snapshots", s.snapshots}, {"read models", s.readModels}, {"log", s.log}} { // the log may have to be waited for
		err := part.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.tell(part.what, err) // what cannot be read is as good as damaged
		}
	}
	s.end()
}

func (s *Scrubber) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.listed = 0, nil
	s.status.Begun, s.status.Bytes, s.status.Total = s.cfg.Now(), 0, s.size()
	inTime := float64(s.status.Total) / (s.cfg.Every / 2).Seconds()
	speed := max(s.cfg.BytesPerSecond, int64(inTime))
	s.pace.SetLimit(rate.Limit(speed))
	s.pace.SetBurst(int(max(speed, blocks.PaceBytes)))
}

func (s *Scrubber) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Rounds++
	s.status.Ended = s.cfg.Now()
	s.status.Found, s.status.Damage = s.found, s.listed
}

// size returns roughly how many bytes there are to read.
func (s *Scrubber) size() (total int64) {
	folders := []string{s.cfg.Snapshots, s.cfg.Views.Dir()}
	if s.cfg.Log != nil {
		folders = append(folders, s.cfg.Log.Dir())
	}
	for _, folder := range folders {
		// Files that come and go meanwhile do not matter here.
		_ = filepath.Walk(folder, func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				total += info.Size()
			}
			return nil
		})
	}
	return total
}

func (s *Scrubber) read(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Bytes += bytes
}

// tell counts damage. The findings of this round are shown at once; those of the
// last round stay until this one has ended.
func (s *Scrubber) tell(what string, err error) {
	s.cfg.Logger.Error("damage on the disk", "what", what, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found++
	if len(s.listed) < maxListed {
		s.listed = append(s.listed, what+": "+err.Error())
	}
	if s.found > s.status.Found {
		s.status.Found, s.status.Damage = s.found, append([]string{}, s.listed...)
	}
}

// log reads the log's files. While another server fills them they lack what was
// folded, and come and go: what is found then says nothing. And a commit may be
// folded before this server has stored it: what is found counts where another
// look finds it, too.
func (s *Scrubber) log(ctx context.Context) error {
	if s.cfg.Log == nil {
		return nil
	}
	for s.awaitWhole(ctx) {
		found, sure, err := s.lookAtLog(ctx)
		if sure && s.cfg.Whole != nil && len(found) > 0 {
			var again []*blocks.DamageError
			again, sure, err = s.lookAtLog(ctx)
			found = inBoth(found, again)
		}
		if !sure {
			continue
		}
		for _, d := range found {
			s.tell("log", d)
		}
		return err
	}
	return nil
}

// lookAtLog reads the log's files once. What it finds is sure if they were not
// filled meanwhile.
func (s *Scrubber) lookAtLog(ctx context.Context) (found []*blocks.DamageError, sure bool, err error) {
	sure = true
	durable := func() uint64 {
		sure = sure && s.whole()
		return s.cfg.Views.Checkpoint().Sequence
	}
	err = s.cfg.Log.Scrub(ctx, s.pace, durable, func(d *blocks.DamageError) { found = append(found, d) }, s.read)
	return found, sure && s.whole(), err
}

// inBoth is the damage that two looks have found.
func inBoth(first, second []*blocks.DamageError) (both []*blocks.DamageError) {
	for _, d := range second {
		if slices.ContainsFunc(first, func(o *blocks.DamageError) bool { return o.Path == d.Path && o.Offset == d.Offset }) {
			both = append(both, d)
		}
	}
	return both
}

func (s *Scrubber) whole() bool { return s.cfg.Whole == nil || s.cfg.Whole() }

const (
	// wholeEvery lies between looks whether the log's files are whole, and
	// wholeWait is after what time they are left out of this round: a server may
	// have no part of the log.
	wholeEvery = time.Second
	wholeWait  = 10 * time.Minute
)

// awaitWhole reports whether the log's files can be looked at.
func (s *Scrubber) awaitWhole(ctx context.Context) bool {
	for waited := time.Duration(0); !s.whole(); waited += wholeEvery {
		if waited >= wholeWait {
			s.cfg.Logger.Info("the log's files are not read again in this round: they do not hold all of it")
			return false
		}
		select {
		case <-time.After(wholeEvery):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (s *Scrubber) readModels(ctx context.Context) error {
	return s.cfg.Views.CheckFiles(ctx, s.pace, func(err error) { s.tell("read models", err) }, s.read)
}

// snapshots removes damaged snapshots. The next snapshot that is due takes their
// place.
func (s *Scrubber) snapshots(ctx context.Context) error {
	paths, err := snapshots.Files(s.cfg.Snapshots)
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := blocks.ReadPaced(ctx, path, s.pace)
		if errors.Is(err, os.ErrNotExist) {
			continue // pruned meanwhile
		}
		if err != nil {
			return err
		}
		s.read(int64(len(data)))
		if err := snapshots.CheckSum(data); err != nil {
			s.tell("snapshot "+filepath.Base(path)+" (removed)", err)
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
