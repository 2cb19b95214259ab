package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger/durable"
)

// TestReplace: a write that fails leaves what was there, and no other file.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := durable.Replace(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	errFull := errors.New("no space left")
	err := durable.ReplaceWith(path, func(f *os.File) error {
		_, err := f.WriteString("tw")
		return errors.Join(err, errFull)
	})
	if !errors.Is(err, errFull) {
		t.Errorf("a failed write: %v", err)
	}
	holds(t, dir, "one")
	if err := durable.Replace(path, []byte("two")); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, "two")
}

// holds wants a folder to hold one file, with some contents.
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

// TestMissingFolder: what cannot be written or synced is an error.
func TestMissingFolder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, err := range map[string]error{
		"Replace":    durable.Replace(filepath.Join(missing, "file"), nil),
		"SyncFolder": durable.SyncFolder(missing),
		"SyncTree":   durable.SyncTree(missing),
	} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s in a folder that is missing: %v", name, err)
		}
	}
}
