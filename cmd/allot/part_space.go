package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/system"
)

// How a full disk is handled: commands are refused while less than a reserve is
// free, before anything fails. If another process takes the rest at once and
// JetStream fails, its store is reopened as soon as there is room. Reads go on
// meanwhile.

// How often the free space is measured: often when the disk is nearly full.
const (
	spaceEvery  = 100 * time.Millisecond
	spaceHurry  = 10 * time.Millisecond
	nearlyTimes = 4 // the reserve
)

// leastRoom is how much must be free before a failed store is reopened, in bytes.
const leastRoom = 256 << 10

// space watches the disks of a data folder.
type space struct {
	server  *server
	folders []string
	free    atomic.Int64 // on the fullest of the disks
	reserve atomic.Int64
	growth  growth
	nearly  bool                  // told that the disk is nearly full; of one goroutine
	problem atomic.Pointer[error] // why the log must not be written
	armed   atomic.Bool
	quit    chan struct{}
	ended   sync.WaitGroup
}

// errNoSpace means that the disk is full, or nearly full.
var errNoSpace = errors.New("the disk is full")

// watchSpace starts to watch the disks.
func (s *server) watchSpace(context.Context) error {
	watch := &space{server: s, quit: make(chan struct{})}
	for _, folder := range []string{"", "log", "readmodel", "snapshots"} {
		watch.folders = append(watch.folders, filepath.Join(s.config.Data, folder))
	}
	if err := watch.measure(); err != nil {
		return err
	}
	s.space = watch
	watch.ended.Go(watch.watch)
	return nil
}

func (s *server) stopSpace() error {
	close(s.space.quit)
	s.space.ended.Wait()
	return nil
}

// armSpace lets the watch refuse commands. Commands of the start must go through
// before, so that a server with a nearly full disk can start and be read.
func (s *server) armSpace(context.Context) error {
	s.space.armed.Store(true)
	return nil
}

// disarm lets commands through again, for another start of the writer.
func (s *space) disarm() { s.armed.Store(false) }

// refuse returns why the log must not be written now, or nil.
func (s *space) refuse() error {
	if nats := s.server.log.nats; nats != nil {
		if err := nats.Broken(); err != nil {
			return told(err)
		}
	}
	if !s.armed.Load() {
		return nil
	}
	if problem := s.problem.Load(); problem != nil {
		return *problem
	}
	if s.server.views.Full() {
		return errReadModelsWait
	}
	return nil
}

// unfit returns why another server should lead if one can, or nil.
func (s *space) unfit() error {
	if nats := s.server.log.nats; nats != nil {
		if err := nats.Broken(); err != nil {
			return told(err)
		}
	}
	if problem := s.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// room is how many bytes there are above the reserve.
func (s *space) room() int64 { return s.free.Load() - s.reserve.Load() }

// errReadModelsWait: Pebble asks for more at once than the reserve holds.
var errReadModelsWait = fmt.Errorf(
	"%w: the read models wait for room. Free some space, and writes go on by themselves", errNoSpace,
)

// told is the error for clients when the store is broken. It has no names of
// files.
func told(broken error) error {
	if embedded.NoSpace(broken) {
		return errNoSpace
	}
	return errBroken
}

// errBroken means that JetStream failed, but not because the disk was full.
var errBroken = errors.New(
	"its disk failed, and nobody knows what it holds: read the server's messages, and restart the server",
)

// measure measures the free space of the disks.
func (s *space) measure() error {
	free, reserve, left := int64(math.MaxInt64), int64(0), int64(math.MaxInt64)
	for _, folder := range s.folders {
		here, size, err := system.Room(folder)
		if errors.Is(err, os.ErrNotExist) {
			continue // an external NATS server keeps the log
		} else if err != nil {
			return fmt.Errorf("the free space of the disk at %s cannot be measured: %w", folder, err)
		}
		if wanted := s.server.config.DiskReserve.of(size); here-wanted < left {
			free, reserve, left = here, wanted, here-wanted
		}
	}
	s.free.Store(free)
	s.reserve.Store(reserve)
	s.growth.note(time.Now(), free)
	if left >= 0 {
		s.problem.Store(nil)
		return nil
	}
	problem := fmt.Errorf(
		"%w: %d bytes are free, but --disk-reserve keeps %d. Free some space, and writes go on by themselves", errNoSpace, free,
		reserve,
	)
	s.problem.Store(&problem)
	return nil
}

func (s *space) watch() {
	var told string
	for timer := time.NewTimer(spaceEvery); ; {
		select {
		case <-timer.C:
		case <-s.quit:
			return
		}
		err := s.look()
		if now := fmt.Sprint(err != nil); now != told {
			s.tell(err, told != "")
			told = now
		}
		s.warn()
		next := spaceEvery
		if s.free.Load() < nearlyTimes*s.reserve.Load() {
			next = spaceHurry
		}
		timer.Reset(next)
	}
}

// warn says once that the disk is nearly full, before commands are refused.
func (s *space) warn() {
	free, reserve := s.free.Load(), s.reserve.Load()
	if s.nearly && free < (nearlyTimes+1)*reserve {
		return // told, and not much has changed
	}
	nearly := free < nearlyTimes*reserve
	if nearly {
		s.server.logger.Warn("the disk is nearly full: commands are refused when less than the reserve is free",
			"free", free, "reserve", reserve, "days_left", s.growth.days(reserve))
	}
	s.nearly = nearly
}

// tell logs a change between room and no room.
func (s *space) tell(err error, before bool) {
	switch {
	case err != nil && s.server.log.nats != nil && s.server.log.nats.Ailing() != nil:
		s.server.logger.Error("commands are refused", "error", err, "because", s.server.log.nats.Ailing())
	case err != nil:
		s.server.logger.Error("commands are refused", "error", err)
	case before:
		s.server.logger.Info("the disk has room again", "free", s.free.Load())
	}
}

// look measures the disks, and reopens a failed store if it can. It returns why
// writes are refused, or nil.
func (s *space) look() error {
	if err := s.measure(); err != nil {
		return err
	}
	if s.server.log.nats == nil {
		return s.refuse()
	}
	if ailing := s.server.log.nats.Ailing(); ailing != nil {
		s.failAppends()
		if embedded.NoSpace(ailing) && s.problem.Load() == nil && s.free.Load() >= leastRoom {
			s.reopen()
		}
	}
	return s.refuse()
}

// failAppends ends appends that a broken store will never answer.
func (s *space) failAppends() {
	if s.server.log.nats.Broken() == nil || s.server.log.stream.Pending() == 0 {
		return
	}
	if err := s.server.log.nc.ForceReconnect(); err != nil {
		s.server.logger.Warn("the log's connection could not be made anew", "error", err)
	}
}

func (s *space) reopen() {
	begun := time.Now()
	if err := s.server.log.nats.Reopen(); err != nil {
		s.server.logger.Error("the log's store could not be reopened; trying again", "error", err)
		return
	}
	s.server.logger.Info("the log's store was reopened after the disk had been full", "took", time.Since(begun))
}
