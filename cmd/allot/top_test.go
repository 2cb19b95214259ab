package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// keepBusy allocates until the test ends.
func (s *server) keepBusy() {
	s.t.Helper()
	done, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n)
			if _, _, err := s.call("PUT", "/allocations/"+id, "", allocation()); err != nil {
				s.t.Errorf("allocate: %v", err)
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		close(done)
		<-idle
	})
}

// TestTop: what top says about a busy server, once and as JSON, on a pipe and on
// a terminal.
func TestTop(t *testing.T) {
	t.Parallel()
	metrics := freeAddress(t)
	s := launch(t, t.TempDir(), "--metrics", metrics)
	s.makeProvider(1_000_000)
	s.keepBusy()
	args := []string{"top", "--http", s.http, "--metrics", metrics, "--every", "200ms"}

	t.Run("JSON", func(t *testing.T) {
		type rate struct {
			Name      string
			PerSecond float64 `json:"per_second"`
			P50       float64 `json:"p50_seconds"`
			P99       float64 `json:"p99_seconds"`
		}
		var v struct {
			Role, Status     string
			Sequence         uint64
			CommitsPerSecond float64 `json:"commits_per_second"`
			Rates            struct {
				Doors, Stages, Commands []rate
			}
			Providers []struct {
				Name, Class string
				Used        int64
			}
			Projects []struct {
				Project   string
				Consumers int
				Holds     map[string]int64
			}
		}
		out := allot(t, true, append(args, "--once", "--json")...)
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if v.Role != "leader" || v.Status != "ok" || v.Sequence < 3 || v.CommitsPerSecond <= 0 {
			t.Errorf("%+v", v)
		}
		r := v.Rates
		if len(r.Doors) != 2 || r.Doors[0].PerSecond <= 0 || r.Doors[0].P99 < r.Doors[0].P50 || r.Doors[1].PerSecond != 0 {
			t.Errorf("doors: %+v", r.Doors)
		}
		if len(r.Stages) != 4 || r.Stages[2].Name != "append" || r.Stages[2].P50 <= 0 {
			t.Errorf("stages: %+v", r.Stages)
		}
		if len(r.Commands) != 1 || r.Commands[0].Name != "AllocateForConsumers" || r.Commands[0].P99 <= 0 {
			t.Errorf("commands: %+v", r.Commands)
		}
		if len(v.Providers) != 1 || v.Providers[0].Name != "node" || v.Providers[0].Class != "VCPU" || v.Providers[0].Used == 0 {
			t.Errorf("providers: %+v", v.Providers)
		}
		if len(v.Projects) != 1 || v.Projects[0].Consumers == 0 || v.Projects[0].Holds["VCPU"] != int64(v.Projects[0].Consumers) {
			t.Errorf("projects: %+v", v.Projects)
		}
	})
	t.Run("without metrics", func(t *testing.T) {
		out := allot(t, true, "top", "--http", s.http, "--every", "200ms", "--once")
		for _, want := range []string{"leader, sequence", "start the server with --metrics", "node", "VCPU"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("control sequences on a pipe: %q", out)
		}
	})
	t.Run("pipe", func(t *testing.T) {
		cmd := exec.Command(binary, args...)
		out := new(ledgertest.Output)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, out, func(text string) bool { return strings.Count(text, "FULLEST PROVIDER") >= 2 })
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%v: %q", err, out)
		}
	})
	for name, key := range map[string]string{"q": "q", "Ctrl-C": "\x03"} {
		t.Run("terminal, "+name, func(t *testing.T) { topOnTerminal(t, args, key) })
	}
	t.Run("faults", func(t *testing.T) {
		for want, wrong := range map[string][]string{
			"no server answers":       {"top", "--http", freeAddress(t), "--once"},
			"nobody serves metrics":   {"top", "--http", s.http, "--metrics", freeAddress(t), "--once"},
			"these are no metrics":    {"top", "--http", s.http, "--metrics", s.http, "--once"},
			"--every 1ms":             {"top", "--http", s.http, "--every", "1ms"},
			"the server answered 404": {"top", "--http", metrics, "--once"},
		} {
			if out := allot(t, false, wrong...); !strings.Contains(out, want) || strings.Contains(out, "%!") {
				t.Errorf("%v: %s", wrong, out)
			}
		}
	})
}

// eventually waits until a program has written something.
func eventually(t *testing.T, out *ledgertest.Output, has func(string) bool) {
	t.Helper()
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if has(out.String()) {
			return
		}
	}
	t.Fatalf("the program never wrote what it should: %q", out)
}

// topOnTerminal runs top on a terminal until it has drawn twice in the same
// place, and ends it with a key.
func topOnTerminal(t *testing.T, args []string, key string) {
	ours, theirs := terminal(t)
	cmd := exec.Command(binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // the program has it
	out, drained := new(ledgertest.Output), make(chan struct{})
	go func() {
		defer close(drained)
		text := make([]byte, 4096)
		for {
			n, err := ours.Read(text)
			_, _ = out.Write(text[:n])
			if err != nil {
				return // the program has ended
			}
		}
	}()
	eventually(t, out, func(text string) bool { return strings.Count(text, "\x1b[H\x1b[J") >= 2 })
	if _, err := ours.WriteString(key); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %q", err, out)
	}
	<-drained
	if text := out.String(); !strings.HasSuffix(text, "\x1b[?25h\x1b[?1049l") || !strings.Contains(text, "FULLEST PROVIDER") {
		t.Errorf("the terminal is left as %q", text)
	}
}

// terminal returns both ends of a terminal of 24 lines.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("skipped: there are no terminals here: " + err.Error())
	}
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100})
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}
