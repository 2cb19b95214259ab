package machine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// replacing compiles the program of testdata/replacing for a machine.
func replacing(t *testing.T) *Program {
	t.Helper()
	if ledgertest.Raced {
		t.Skip("skipped: nothing races on a machine of one thread; make models cuts its power")
	}
	path := filepath.Join(t.TempDir(), "replacing.wasm")
	build := exec.Command("go", "build", "-o", path, "./testdata/replacing")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v: %s", err, out)
	}
	p, err := Load(t.Context(), path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cut lets the program replace a file until the power is cut, and reports whether the file is then
// what was printed last, or newer, and whole.
func cut(t *testing.T, p *Program, seed uint64, args ...string) bool {
	t.Helper()
	w := NewWorld(seed)
	m := w.NewMachine("one", alice, p, 1<<20)
	printed := 0
	m.Logged = func(line string) {
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(line)
		}
		printed = n
	}
	m.Start(nil, append([]string{"replacing"}, args...)...)
	w.After(time.Duration(w.Random.IntN(int(50*time.Millisecond))), func() { m.PowerOff(w.Random.IntN(2) == 0) })
	w.Run(time.Minute, func() bool { return !m.Runs() })
	file, failed := m.Disk.Find("/file")
	if failed != 0 {
		return printed == 0
	}
	contents := file.Contents()
	return len(contents) == 10_000 && int(contents[0]) >= printed &&
		bytes.Equal(contents, bytes.Repeat(contents[:1], len(contents)))
}

// TestReplacedFileLasts: what durable.Replace has written is there after a power cut, or what is
// newer, and never a part of it.
func TestReplacedFileLasts(t *testing.T) {
	p := replacing(t)
	lost := 0
	for seed := range uint64(40) {
		if !cut(t, p, seed) {
			t.Errorf("seed %d: the file is not what was printed", seed)
		}
		if !cut(t, p, seed, "unsynced") {
			lost++
		}
	}
	if lost < 4 {
		t.Errorf("without a sync the file was lost in %d of 40 power cuts only", lost)
	}
}

// appendTwice appends to a file, which cannot be synced the first time, and cuts the power after the
// second time. It reports whether the file is whole then.
func appendTwice(t *testing.T, p *Program, seed uint64, args ...string) bool {
	t.Helper()
	w := NewWorld(seed)
	m := w.NewMachine("one", alice, p, 1<<20)
	for _, run := range []struct {
		fails float64
		args  []string
	}{{1, nil}, {0, args}} {
		var ended error
		m.Ended = func(err error) { ended = err }
		m.Disk.Faults.Syncs = run.fails
		m.Start(nil, append([]string{"replacing", "append"}, run.args...)...)
		w.Run(time.Minute, func() bool { return !m.Runs() })
		if m.Runs() || (ended != nil) != (run.fails > 0) {
			t.Fatalf("the program ended with %v, though %v of its syncs failed", ended, run.fails)
		}
	}
	m.PowerOff(true)
	file, failed := m.Disk.Find("/file")
	return failed == 0 && bytes.Equal(file.Contents(), bytes.Repeat([]byte{1}, 20_000))
}

// TestFailedSyncIsMadeUpFor: what a process has written and could not sync is read by the next one,
// and is on no disk, unless that one writes it again.
func TestFailedSyncIsMadeUpFor(t *testing.T) {
	p := replacing(t)
	lost := 0
	for seed := range uint64(40) {
		if !appendTwice(t, p, seed, "again") {
			t.Errorf("seed %d: what was synced at last is lost", seed)
		}
		if !appendTwice(t, p, seed) {
			lost++
		}
	}
	if lost < 10 {
		t.Errorf("without writing it again the file was lost in %d of 40 power cuts only", lost)
	}
}
