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

// ScrubberConfig says what is read, and how fast.
type ScrubberConfig struct {
	// Log are the log's files; nil: it is not on this machine.
	Log       *blocks.Folder
	Views     *projector.Projector
	Snapshots string // the folder
	// BytesPerSecond bounds how fast it reads.
	BytesPerSecond int64
	// Pause is how long it rests between rounds.
	Pause  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

// ScrubStatus is how far the Scrubber has come.
type ScrubStatus struct {
	Rounds int       `json:"rounds"` // finished
	Begun  time.Time `json:"begun"`  // of the round under way, or of the last one
	Ended  time.Time `json:"ended"`  // of the last round; zero: there was none yet
	Bytes  int64     `json:"bytes"`  // read in the round under way, or in the last one
	Total  int64     `json:"total"`  // that there were at its begin
	// Damage is what the last whole round found, or the one under way has
	// found so far: a line each, at most maxListed.
	Damage []string `json:"damage"`
	// Found is how many there are.
	Found int `json:"found"`
}

// maxListed is how much damage is told one by one.
const maxListed = 100

// Good reports whether nothing was found.
func (s ScrubStatus) Good() bool { return s.Found == 0 }

// Scrubber reads again, in the background and slowly, what lies on the disk:
// the log's files, the read models' and the snapshots. Damage is found before
// anything needs what is damaged, while a backup or a replica still has it.
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

// NewPace holds up whoever reads more than so many bytes a second.
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

// Status is how far it has come.
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
			s.tell(what, err) // what cannot be read is as good as damaged
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

// size is roughly how much there is to read.
func (s *Scrubber) size() (total int64) {
	folders := []string{s.cfg.Snapshots, s.cfg.Views.Dir()}
	if s.cfg.Log != nil {
		folders = append(folders, s.cfg.Log.Dir())
	}
	for _, folder := range folders {
		// What comes and goes meanwhile does not matter here.
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

// tell counts damage. What this round finds is shown at once; what the last
// one found stays until this one has ended.
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
	return s.cfg.Views.CheckFiles(ctx, s.pace, func(err error) { s.tell("read models (made again)", err) }, s.read)
}

// snapshots removes damaged ones: the next one that is due takes their place.
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
