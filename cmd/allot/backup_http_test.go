package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupOverHTTP: a running server is backed up over HTTP. The archive holds the same log, and
// later only what is new is added.
func TestBackupOverHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o750); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := filepath.Join(dir, "data")
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", filepath.Join(dir, "key")))
	s := launch(t, data, "--signing-key", filepath.Join(dir, "key"))
	to := "file://" + folder("embedded")
	url := "http://" + s.HTTP
	says(t, allot(t, true, "backup", "--url", url, "--to", to), "verified, in 1 parts")
	for i := range 5 {
		s.Must(http.StatusCreated, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_%d", i), "")
	}
	for range 2 { // the second time there is nothing to do
		says(t, allot(t, true, "backup", "--url", url, "--to", to), "verified, in 2 parts")
	}
	s.Terminate()
	says(t, allot(t, true, "verify", "--archive", to, "--public-key", key), "checkpoints  2 good")
	allot(t, true, "restore", "--from", to, "--check", "--public-key", key) // a drill needs no folder
	if got, want := same(allot(t, true, "replay", "--archive", to)), same(allot(t, true, "replay", "--data", data)); got != want {
		t.Errorf("the archive:\n%s\nand the log:\n%s", got, want)
	}
}
