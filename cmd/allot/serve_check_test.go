package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeCheckFindsWhatWouldStopAStart: settings that are good end well, each fault is named, and
// nothing is made or changed.
func TestServeCheckFindsWhatWouldStopAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := launch(t, filepath.Join(dir, "data"))
	text, config, fresh := filepath.Join(dir, "text"), filepath.Join(dir, "allot.yaml"), filepath.Join(dir, "new", "data")
	write(t, text, "hello")
	write(t, config, "log-level: info\n")
	for _, path := range []string{text, config} {
		if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		good bool
		says string
		args []string
	}{
		{true, "the server can start", nil},
		{true, "warning: every user of this machine can read " + config, []string{"--config", config}},
		{false, "--data " + text, []string{"--data", text}},
		{false, "another process has this address", []string{"--http", s.HTTP}},
		{false, "--metrics " + s.HTTP, []string{"--metrics", s.HTTP}},
		{false, "--policy-file", []string{"--policy-file", text}},
	} {
		args := append([]string{"serve", "--check", "--data", fresh, "--http", "127.0.0.1:0", "--nats", ""}, row.args...)
		if out, good := call(t, args...); good != row.good || !strings.Contains(out, row.says) {
			t.Errorf("%q ends well: %v; want %v and %q:\n%s", row.args, good, row.good, row.says, out)
		}
	}
	if _, err := os.Stat(filepath.Dir(fresh)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check has made a folder: %v", err)
	}
}
