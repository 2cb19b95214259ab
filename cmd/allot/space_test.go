package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger/logtest"
)

// tally counts the outcomes of the commands of a test.
type tally struct {
	mu       sync.Mutex
	answered map[string]bool // carried out
	open     map[string]bool // 503, or no answer: perhaps carried out
}

func newTally() *tally { return &tally{answered: make(map[string]bool), open: make(map[string]bool)} }

// allocate sends one command and notes its outcome.
func (s *server) allocate(n *tally) (status int) {
	id := uuid.NewString()
	status, answer, err := s.Call("PUT", "/allocations/"+uuid.NewString(), id, allocation())
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
		n.open[id] = true
	case status == http.StatusNoContent:
		n.answered[id] = true
	default:
		s.T.Errorf("allocate: %d %s", status, answer)
	}
	return status
}

// outcome is what a table of faults says.
func (n *tally) outcome() string {
	return fmt.Sprintf("%d answered commands, none lost, none twice", len(n.answered))
}

// carriedOut is how many commands were answered as carried out.
func (n *tally) carriedOut() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.answered)
}

// until sends commands from several clients until each has got a status.
func (s *server) until(n *tally, want int) {
	s.T.Helper()
	var clients sync.WaitGroup
	deadline := time.Now().Add(hang)
	for range 4 {
		clients.Go(func() {
			for s.allocate(n) != want {
				if time.Now().After(deadline) {
					s.T.Errorf("no command was answered %d\n%s", want, s.Logs)
					return
				}
			}
		})
	}
	clients.Wait()
}

// check requires every answered command to be in the log once, every other one at
// most once, and usage to equal the log's.
func (n *tally) check(s *server) {
	s.T.Helper()
	counts := s.commandIDs()
	done := 0
	for id, times := range counts {
		if times != 1 {
			s.T.Errorf("command %s is in the log %d times", id, times)
		}
		if n.answered[id] || n.open[id] {
			done++
		}
	}
	for id := range n.answered {
		if counts[id] == 0 {
			s.T.Errorf("command %s was answered and is lost", id)
		}
	}
	says(s.T, s.Must(http.StatusOK, "GET", provider+"/usages", ""), fmt.Sprintf(`"VCPU":%d}`, done))
}

// supervise starts the server again whenever it ends, until the supervisor leaves.
func (s *server) supervise() (leave func()) {
	quit, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		for {
			select {
			case <-quit:
				return
			case <-s.Exited:
			}
			s.Again()
		}
	}()
	return func() {
		close(quit)
		<-left
	}
}

// reads checks that everything can be read.
func (s *server) reads() {
	s.T.Helper()
	s.Must(http.StatusOK, "GET", provider, "")
	s.Must(http.StatusOK, "GET", provider+"/usages", "")
	s.Must(http.StatusOK, "GET", "/audit/records?limit=3", "")
}

// TestFullDisk fills the disk: slowly, so that the reserve is reached first; at
// once, so that JetStream fails, and the server ends; and both again. What its
// supervisor starts answers reads meanwhile, afterwards commands go on, and no
// answered command is lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  int64 // what another process leaves free
		flags []string
		sign  string // in the server's log
	}{
		"reserve": {2 << 20, nil, "--disk-reserve keeps"},
		"at once": {0, []string{"--disk-reserve", "0"}, "could not write to its store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := times(1, 2)
			disk := logtest.SmallDisk(t, "64m")
			data, filler := filepath.Join(disk, "data"), filepath.Join(disk, "filler")
			s := launch(t, data, c.flags...)
			leave := s.supervise()
			s.makeProvider(1_000_000)
			n := newTally()
			for range rounds {
				logtest.FillUp(t, filler, c.left)
				s.until(n, http.StatusServiceUnavailable)
				s.reads()
				must(t, os.Remove(filler))
				freed := time.Now()
				s.until(n, http.StatusNoContent)
				t.Logf("a command was accepted %v after there was room", time.Since(freed))
			}
			n.check(s)
			logtest.FillUp(t, filler, c.left)
			s.until(n, http.StatusServiceUnavailable)
			leave()
			must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
			_ = s.Wait() // it may have ended before, for want of room
			says(t, s.Logs.String(), c.sign)
			must(t, os.Remove(filler))
			s = launch(t, data, c.flags...)
			n.check(s)
			s.Must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
			tell(t, "full disk, "+name, rounds+1, n.outcome())
		})
	}
}

// disk is an ext4 file system in a file, whose power can be cut: everything that
// was not synced is then gone.
type disk struct {
	t            *testing.T
	image, mount string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: power cuts need root to mount a file system")
	}
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "disk.img"), mount: t.TempDir()}
	output(t, exec.Command("truncate", "-s", "512M", d.image))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("skipped: no ext4 file system can be made: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", d.mount).Run() })
	return d
}

// shutdownNow is FS_IOC_SHUTDOWN with "do not even flush the journal".
const (
	shutdownIoctl = 0x8004587d
	shutdownNow   = uint32(2)
)

func (d *disk) cut() {
	d.t.Helper()
	dir, err := os.Open(d.mount)
	must(d.t, err)
	defer func() { _ = dir.Close() }() // nothing was written
	flag := shutdownNow
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), shutdownIoctl, uintptr(unsafe.Pointer(&flag)))
	if errno != 0 {
		d.t.Fatalf("FS_IOC_SHUTDOWN: %v", errno)
	}
}

// remount brings the disk back after a cut, and replays its journal. It is a copy of the image that is
// mounted: a process that has a mount namespace of its own may keep the dead file system, and the same
// image would bring that back.
func (d *disk) remount() {
	d.t.Helper()
	dead := d.image
	d.image += "+"
	for _, args := range [][]string{
		{"umount", d.mount}, {"cp", "--sparse=always", dead, d.image}, {"rm", dead},
		{"mount", "-o", "loop", d.image, d.mount},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			d.t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// TestPowerCut cuts the power under load: no answered command may be lost. With
// lazy syncing some must be lost, or the test proves nothing.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"sync always":      {},
		"negative control": {"--lazy-sync"},
	} {
		lazy := slices.Contains(flags, "--lazy-sync")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			data := filepath.Join(d.mount, "data")
			n, lost := newTally(), 0
			cuts := times(1, 40)
			if lazy {
				cuts = 1
			}
			s := launch(t, data)
			s.makeProvider(1_000_000)
			s.Terminate()
			for range cuts {
				s := launch(t, data, flags...)
				s.loadAndKill(n, 100, func() { d.cut(); s.Kill() })
				d.remount()
				again := start(t, data, flags...)
				if lost = len(n.answered); !again.Serves() {
					t.Logf("the server refuses to start, because everything is gone:\n%s", again.Logs)
					continue
				}
				for id := range again.commandIDs() {
					if n.answered[id] {
						lost--
					}
				}
				again.Kill()
			}
			tell(t, "power cut, "+name, cuts, fmt.Sprintf("%d answered commands, %d lost", len(n.answered), lost))
			if lazy && lost == 0 {
				t.Error("lazy syncing lost nothing: the cut cuts nothing")
			}
			if !lazy && lost > 0 {
				t.Errorf("%d of %d answered commands were lost", lost, len(n.answered))
			}
		})
	}
}
