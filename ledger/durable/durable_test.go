package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestFiles lists the files with a suffix, in order, in a folder of any name. A
// folder that cannot be read is an error.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of [a-z]*, ?")
	if paths, err := durable.Files(dir, ".log"); err != nil || len(paths) > 0 {
		t.Errorf("no folder: %v, %v", paths, err)
	}
	ledgertest.OK(t, os.Mkdir(dir, 0o750))
	for _, name := range []string{"b.log", "a.log", ".log", "a.log.tmp", "a", "*.log"} {
		ledgertest.OK(t, durable.Replace(filepath.Join(dir, name), nil))
	}
	paths, err := durable.Files(dir, ".log")
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
		if filepath.Dir(path) != dir {
			t.Errorf("%s is not in %s", path, dir)
		}
	}
	if want := []string{"*.log", ".log", "a.log", "b.log"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	if paths, err := durable.Files(filepath.Join(dir, "a"), ".log"); err == nil {
		t.Errorf("a file holds %v", paths)
	}
}
