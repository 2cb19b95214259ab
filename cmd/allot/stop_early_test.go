package main_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
)

// TestStopWhileStarting stops a start that takes long, at each of its phases: it
// ends soon, says that it was told to if it had begun, leaves nothing behind,
// and the next start has everything.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	last := filled(t, data)
	whole := filesOf(t, data)
	for _, wait := range []time.Duration{0, 5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 800, 1200} {
		for _, lost := range []string{"readmodel", "snapshots"} { // the log is replayed
			if err := os.RemoveAll(filepath.Join(data, lost)); err != nil {
				t.Fatal(err)
			}
		}
		s := start(t, data)
		time.Sleep(wait * time.Millisecond) // wherever it is then
		s.stopsEarly(t, fmt.Sprint("after ", wait*time.Millisecond))
		for _, path := range filesOf(t, data) {
			if !slices.Contains(whole, path) && strings.Contains(filepath.Base(path), "tmp") {
				t.Errorf("after %v ms %s is left behind", wait, path)
			}
		}
	}
	s := launch(t, data)
	if status, text := s.send("GET", "/traits/"+last, "", map[string]string{"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}); status != 204 {
		t.Errorf("what was written last: %d %s", status, text)
	}
}

// TestStopWhileWaiting stops a start that waits for a NATS server that does not
// say anything. It waits for none that is away.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }() // nothing was sent
	s := start(t, t.TempDir(), "--nats-url", "nats://"+silent.Addr().String())
	if _, err := silent.Accept(); err != nil { // it waits then
		t.Fatal(err)
	}
	s.stopsEarly(t, "while NATS says nothing")

	away := start(t, t.TempDir(), "--nats-url", "nats://"+freeAddress(t))
	away.ends("by itself, since NATS is away")
	if away.exit == nil || !strings.Contains(away.logs.String(), "connect to") {
		t.Errorf("%v\n%s", away.exit, away.logs)
	}
}

// stopsEarly sends SIGTERM to a server that may still be starting.
func (s *server) stopsEarly(t *testing.T, when string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !strings.Contains(err.Error(), "finished") {
		t.Fatal(err)
	}
	s.ends(when)
	state := s.cmd.ProcessState
	byDefault := state.Sys().(syscall.WaitStatus).Signaled() // before it had begun
	text := s.logs.String()
	t.Logf("%s: %v %.200q", when, state, text)
	switch {
	case strings.Contains(text, "panic") || strings.Contains(text, "goroutine "):
		t.Errorf("%s: %s", when, text)
	case !byDefault && s.exit != nil && !strings.Contains(text, "told to stop"):
		t.Errorf("%s: %v, and it does not say that it was told to stop:\n%s", when, s.exit, text)
	}
}

// filled makes a log that takes a while to read, and names the last trait in it.
func filled(t *testing.T, data string) (last string) {
	t.Helper()
	address := freeAddress(t)
	s := launch(t, data, "--nats", address, "--lazy-sync")
	allot := client.New(dial(t, "nats://"+address), client.Options{})
	for batch := range 60 {
		var items []client.Item
		for i := range 1000 {
			last = fmt.Sprintf("CUSTOM_%d_%d", batch, i)
			items = append(items, client.Item{ID: commandstest.NewID(), Command: &commands.CreateTrait{Name: last}})
		}
		results, err := allot.SubmitAll(patiently(t), items)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range results {
			if one.Err != nil {
				t.Fatal(one.Err)
			}
		}
	}
	s.terminate()
	return last
}

// filesOf are those of a data folder.
func filesOf(t *testing.T, data string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
