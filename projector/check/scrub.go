package check

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// ScrubberConfig says what a Scrubber reads, and how fast.
type ScrubberConfig struct {
	// Log are the log's files; nil: the log is not on this machine.
	Log       *blocks.Folder
	Views     *projector.Projector
	Snapshots string // folder of the snapshots
	// BytesPerSecond bounds the speed of reading.
	BytesPerSecond int64
	// Pause is the rest between two rounds.
	Pause  time.Duration
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

// StartScrubber starts with a round.
func StartScrubber(cfg ScrubberConfig) *Scrubber {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Scrubber{
		cfg: cfg, stop: cancel,
		pace: rate.NewLimiter(rate.Limit(cfg.BytesPerSecond), int(max(cfg.BytesPerSecond, blocks.PaceBytes))),
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
		s.round(ctx)
		select {
		case <-time.After(s.cfg.Pause):
		case <-ctx.Done():
			return
		}
	}
}

// round reads everything once.
func (s *Scrubber) round(ctx context.Context) {
	s.begin()
	for what, part := range map[string]func(context.Context) error{
		"log": s.log, "read models": s.readModels, "snapshots": s.snapshots,
	} {
		err := part(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.tell(what, err) // files that cannot be read count as damaged
		}
	}
	s.end()
}

func (s *Scrubber) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.listed = 0, nil
	s.status.Begun, s.status.Bytes, s.status.Total = s.cfg.Now(), 0, s.size()
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

func (s *Scrubber) log(ctx context.Context) error {
	if s.cfg.Log == nil {
		return nil
	}
	durable := func() uint64 { return s.cfg.Views.Checkpoint().Sequence }
	return s.cfg.Log.Scrub(ctx, s.pace, durable, func(d *blocks.DamageError) { s.tell("log", d) }, s.read)
}

func (s *Scrubber) readModels(ctx context.Context) error {
	return s.cfg.Views.CheckFiles(ctx, s.pace, func(err error) { s.tell("read models (being rebuilt)", err) }, s.read)
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
