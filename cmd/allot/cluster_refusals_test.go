package main_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
)

// refuses checks that a server ends by itself, and says why and what to do.
func (s *server) refuses(words ...string) {
	s.T.Helper()
	if s.Serves() {
		s.T.Fatalf("it serves:\n%s", s.Logs)
	}
	if s.Wait() == nil {
		s.T.Error("it ended as if all were well")
	}
	says(s.T, s.Logs.String(), words...)
}

// copyTree copies a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	output(t, exec.Command("cp", "-a", from, to))
}

// replaceTree copies a file or folder in the place of another.
func replaceTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	copyTree(t, from, to)
}
