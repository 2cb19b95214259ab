package archives_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/logtest"
)

// joinedWorld is a log of 60 commits of which an archive, in a folder, has all.
func joinedWorld(t *testing.T) (w *world, dir string, older *archives.Log) {
	w = newWorld(t, 60)
	one, dir := inFolder(t)
	w.archive(w.config(one), 60)
	return w, dir, archives.NewLog([]*archives.Archive{open(t, "file://"+dir)}, t.TempDir(), 1)
}

// held returns all entries of the world's log.
func (w *world) held() (list [][]byte) {
	w.t.Helper()
	last, err := w.log.Last(w.t.Context())
	if err == nil {
		err = w.log.Read(w.t.Context(), 1, last, func(e ledger.Entry) error {
			list = append(list, slices.Clone(e.Data))
			return nil
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// TestJoined: a hot log, wherever it begins, and an archive are one log, as any
// other.
func TestJoined(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]uint64{
		"nothing has left": 1, "the hot log begins in a part": 25, "it begins where a part does": 31, "all have left": 61,
	} {
		t.Run(name, func(t *testing.T) {
			w, _, older := joinedWorld(t)
			held := w.held()
			w.log.Forget(first)
			log := archives.Join(w.log, older)
			logtest.RunAfter(t, log, log, held)
		})
	}
}

// TestLeavesWhileRead: a reader misses nothing when what it reads leaves the hot
// log, at whatever entry.
func TestLeavesWhileRead(t *testing.T) {
	t.Parallel()
	for at := uint64(5); at < 60; at += 9 {
		w, _, older := joinedWorld(t)
		held := w.held()
		w.log.Forget(4)
		next := uint64(1)
		err := archives.Join(w.log, older).Read(t.Context(), 1, 60, func(e ledger.Entry) error {
			if e.Sequence != next || string(e.Data) != string(held[e.Sequence-1]) {
				return errors.New("it is another entry")
			}
			if next++; e.Sequence == at {
				w.log.Forget(at + 20)
			}
			return nil
		})
		if err != nil || next != 61 {
			t.Errorf("left after %d: read up to %d: %v", at, next-1, err)
		}
	}
}

// TestJoinedFaults: what neither log has, and what an archive has damaged, is an
// error that says so, and the errors of readers are theirs.
func TestJoinedFaults(t *testing.T) {
	t.Parallel()
	w, dir, older := joinedWorld(t)
	w.log.Forget(31)
	log := archives.Join(w.log, older)
	own := &ledger.BadEntryError{Sequence: 7, Err: ledger.ErrLogGap}
	var asked int
	err := log.Read(t.Context(), 35, 60, func(ledger.Entry) error {
		asked++
		w.log.Forget(45) // it leaves, and the reader has its own fault
		return own
	})
	if !errors.Is(err, own) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "parts", "*"))
	if err != nil || len(parts) != 6 {
		t.Fatal(parts, err)
	}
	text, err := os.ReadFile(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	err = errors.Join(os.Chmod(parts[2], 0o600), os.WriteFile(parts[2], text, 0o600), os.Remove(parts[1]))
	if err != nil {
		t.Fatal(err)
	}
	for sequence, want := range map[uint64]error{15: ledger.ErrLogGap, 25: archives.ErrPart} {
		log := archives.Join(w.log, archives.NewLog([]*archives.Archive{open(t, "file://"+dir)}, t.TempDir(), 1))
		if err := log.Read(t.Context(), sequence, 60, func(ledger.Entry) error { return nil }); !errors.Is(err, want) {
			t.Errorf("sequence %d: %v, want %v", sequence, err, want)
		}
	}
}
