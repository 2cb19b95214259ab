package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestReplace: a write that fails leaves the old file, and no other.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	ledgertest.OK(t, durable.Replace(path, []byte("one")))
	errFull := errors.New("no space left")
	err := durable.ReplaceWith(path, func(f *os.File) error {
		_, err := f.WriteString("tw")
		return errors.Join(err, errFull)
	})
	if !errors.Is(err, errFull) {
		t.Errorf("a failed write: %v", err)
	}
	holds(t, dir, "one")
	ledgertest.OK(t, durable.Replace(path, []byte("two")))
	holds(t, dir, "two")
}

// holds checks that a folder holds one file, with these contents.
func holds(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder holds %v, %v; want one file", entries, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, entries[0].Name())); err != nil || string(got) != want {
		t.Errorf("the file holds %q, %v; want %q", got, err, want)
	}
}
