package system

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/ledgertest"
)

func TestSinceBootNeverGoesBack(t *testing.T) {
	before := SinceBoot()
	if after := SinceBoot(); before <= 0 || after < before || after-before > time.Hour {
		t.Errorf("since boot: %v, then %v", before, after)
	}
}

func TestRoom(t *testing.T) {
	if free, size, err := Room(t.TempDir()); err != nil || free < 0 || size < free || size == 0 {
		t.Errorf("free %d of %d: %v", free, size, err)
	}
	if _, _, err := Room(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

func TestLockHoldsUntilTheFileIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		file, err := os.Create(path)
		ledgertest.OK(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	first, second := open(), open()
	ledgertest.OK(t, Lock(first))
	if err := Lock(second); err == nil {
		t.Fatal("locked twice")
	}
	ledgertest.OK(t, first.Close())
	ledgertest.OK(t, Lock(second))
}

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	for _, path := range []string{one, other} {
		ledgertest.OK(t, os.Mkdir(path, 0o750), os.WriteFile(filepath.Join(path, "name"), []byte(filepath.Base(path)), 0o600))
	}
	ledgertest.OK(t, Exchange(one, other))
	if name := ledgertest.ReadFile(t, filepath.Join(one, "name")); string(name) != "other" {
		t.Errorf("%q", name)
	}
	if err := Exchange(one, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}
