package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/allot-project/allot/ledger/embedded"
)

// How a full disk is met: writes are refused while less than a reserve is
// free, before anything fails. If another process takes the rest at once, and
// JetStream fails, its store is opened anew as soon as there is room. Reads go
// on meanwhile.

// Intervals at which the disk is looked at: often when it is nearly full.
const (
	spaceEvery  = 100 * time.Millisecond
	spaceHurry  = 10 * time.Millisecond
	nearlyTimes = 4 // the reserve
)

// The reserve, unless --disk-reserve says otherwise.
const (
	defaultReserve = 256 << 20
	reserveShare   = 50 // at most one part in so many of the disk
)

// leastRoom is what must be free before a store that failed is opened anew.
const leastRoom = 256 << 10

// diskReserve is how much of the disk is kept free.
type diskReserve struct {
	bytes int64
	given bool
}

// UnmarshalText reads bytes, or a number with KiB, MiB, GiB or TiB.
func (r *diskReserve) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = diskReserve{}
		return nil
	}
	number, unit := string(text), int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = rest, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a number of bytes, such as 256MiB, or auto", text)
	}
	*r = diskReserve{n * unit, true}
	return nil
}

// of is the reserve on a disk of some size.
func (r diskReserve) of(size int64) int64 {
	if r.given {
		return r.bytes
	}
	return min(defaultReserve, size/reserveShare)
}

// space watches the disks of a data folder.
type space struct {
	node    *node
	folders []string
	free    atomic.Int64 // on the fullest of the disks
	reserve atomic.Int64
	problem atomic.Pointer[error] // why nothing must be written
	armed   atomic.Bool
	quit    chan struct{}
	ended   sync.WaitGroup
}

// errNoSpace: the disk is full, or nearly so.
var errNoSpace = errors.New("the disk is full")

func (n *node) watchSpace() error {
	s := &space{node: n, quit: make(chan struct{})}
	for _, folder := range []string{"", "log", "readmodel", "snapshots"} {
		s.folders = append(s.folders, filepath.Join(n.config.Data, folder))
	}
	if err := s.measure(); err != nil {
		return err
	}
	n.space = s
	s.ended.Go(s.watch)
	return nil
}

// arm lets the watch refuse commands: those of the start must go through, so
// that a server whose disk is nearly full can start and be read.
func (s *space) arm() { s.armed.Store(true) }

func (s *space) stop() {
	close(s.quit)
	s.ended.Wait()
}

// refuse says why nothing must be written now.
func (s *space) refuse() error {
	if n := s.node; n.nats != nil {
		if err := n.nats.Broken(); err != nil {
			return told(err)
		}
	}
	if !s.armed.Load() {
		return nil
	}
	if problem := s.problem.Load(); problem != nil {
		return *problem
	}
	if s.node.views.Full() {
		return errReadModelsWait
	}
	return nil
}

// errReadModelsWait: Pebble asks for more at once than the reserve holds.
var errReadModelsWait = fmt.Errorf("%w: the read models wait for room; make some, and writes go on by themselves", errNoSpace)

// told is what clients are told of a store that is broken, without the names
// of files.
func told(broken error) error {
	if embedded.NoSpace(broken) {
		return errNoSpace
	}
	return errBroken
}

// errBroken: JetStream failed, and not because the disk was full.
var errBroken = errors.New("its disk failed, and nobody knows what it holds; the server's log says more, and must be started again")

// measure looks at the disks.
func (s *space) measure() error {
	free, reserve, left := int64(math.MaxInt64), int64(0), int64(math.MaxInt64)
	for _, folder := range s.folders {
		var disk syscall.Statfs_t
		if err := syscall.Statfs(folder, &disk); errors.Is(err, syscall.ENOENT) {
			continue // an external NATS keeps the log
		} else if err != nil {
			return fmt.Errorf("how much of the disk is free at %s is not known: %w", folder, err)
		}
		here, wanted := int64(disk.Bavail)*disk.Bsize, s.node.config.DiskReserve.of(int64(disk.Blocks)*disk.Bsize)
		if here-wanted < left {
			free, reserve, left = here, wanted, here-wanted
		}
	}
	s.free.Store(free)
	s.reserve.Store(reserve)
	if left >= 0 {
		s.problem.Store(nil)
		return nil
	}
	problem := fmt.Errorf("%w: %d bytes are free, and --disk-reserve keeps %d; make room, and writes go on by themselves", errNoSpace, free, reserve)
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
		next := spaceEvery
		if s.free.Load() < nearlyTimes*s.reserve.Load() {
			next = spaceHurry
		}
		timer.Reset(next)
	}
}

// tell logs a change.
func (s *space) tell(err error, before bool) {
	switch {
	case err != nil && s.node.nats != nil && s.node.nats.Ailing() != nil:
		s.node.log.Error("commands are refused", "error", err, "because", s.node.nats.Ailing())
	case err != nil:
		s.node.log.Error("commands are refused", "error", err)
	case before:
		s.node.log.Info("the disk has room again", "free", s.free.Load())
	}
}

// look measures, and mends what can be mended. It returns why writes are refused.
func (s *space) look() error {
	if err := s.measure(); err != nil {
		return err
	}
	if s.node.nats == nil {
		return s.refuse()
	}
	if ailing := s.node.nats.Ailing(); ailing != nil {
		s.failAppends()
		if embedded.NoSpace(ailing) && s.problem.Load() == nil && s.free.Load() >= leastRoom {
			s.reopen()
		}
	}
	return s.refuse()
}

// failAppends ends the appends that a broken store will never answer.
func (s *space) failAppends() {
	if s.node.nats.Broken() == nil || s.node.stream.Pending() == 0 {
		return
	}
	if err := s.node.nc.ForceReconnect(); err != nil {
		s.node.log.Warn("the log's connection cannot be made anew", "error", err)
	}
}

func (s *space) reopen() {
	begun := time.Now()
	if err := s.node.nats.Reopen(); err != nil {
		s.node.log.Error("the log cannot be opened anew; trying again", "error", err)
		return
	}
	s.node.log.Info("the log was opened anew after the disk had been full", "took", time.Since(begun))
}
