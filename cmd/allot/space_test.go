package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

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
			tell(t, "full disk, "+name, rounds+1, fmt.Sprintf("%d answered commands, none lost, none twice", len(n.answered)))
		})
	}
}
