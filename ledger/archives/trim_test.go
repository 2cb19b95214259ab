package archives_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archives"
)

// trimming is what keeps a world's log at 40 commits.
func (w *world) trimming(list ...*archives.Archive) archives.TrimConfig {
	return archives.TrimConfig{
		Hot: w.log, Archives: list, Ledger: w.id, Head: func() ledger.Head { return w.heads[len(w.heads)-1] },
		Replayed: func() (uint64, error) { return w.heads[len(w.heads)-1].Sequence, nil },
		Commits:  40, Folder: w.t.TempDir(), Every: time.Millisecond, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
}

// trimOnce does what is due now.
func trimOnce(ctx context.Context, cfg archives.TrimConfig) error {
	trimmer, err := archives.NewTrimmer(cfg)
	if err != nil {
		return err
	}
	return trimmer.Work(ctx)
}

// sealedWorld is a log of 100 commits, sealed after 10, 20, ..., and archived twice,
// in parts of 15.
func sealedWorld(t *testing.T) (w *world, list []*archives.Archive, dirs []string) {
	w = newWorld(t, 100)
	w.bounds.Records = 15
	for range 2 {
		one, dir := inFolder(t)
		list, dirs = append(list, one), append(dirs, dir)
	}
	w.archive(w.config(list...), 90)
	w.again(func(head ledger.Head) {
		if head.Sequence%10 == 0 {
			if err := w.log.Roll(t.Context(), head); err != nil {
				t.Fatal(err)
			}
		}
	})
	return w, list, dirs
}

// again has the log get its commits again, one by one.
func (w *world) again(after func(head ledger.Head)) {
	w.t.Helper()
	held, all := w.held(), w.heads
	w.log.Edit(func([][]byte) [][]byte { return nil })
	for i, text := range held {
		done := make(chan error, 1)
		w.log.Append(uint64(i+1), text, func(err error) { done <- err })
		if err := <-done; err != nil {
			w.t.Fatal(err)
		}
		w.heads = all[:i+1]
		after(all[i])
	}
}

// TestTrimmed: what lies in all archives and need not stay leaves, piece by piece,
// and the log reads as before.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	w, list, dirs := sealedWorld(t)
	held := w.held()
	if err := trimOnce(t.Context(), w.trimming(list...)); err != nil {
		t.Fatal(err)
	}
	if first := w.log.First(); first != 61 {
		t.Errorf("the hot log begins with %d: 40 commits are to stay", first)
	}
	older := archives.NewLog([]*archives.Archive{open(t, "file://"+dirs[1])}, t.TempDir(), 1<<20)
	log, next := archives.Join(w.log, older), 0
	if err := log.Read(t.Context(), 1, 100, func(e ledger.Entry) error {
		if string(e.Data) != string(held[next]) {
			return errors.New("it is another entry")
		}
		next++
		return nil
	}); err != nil || next != 100 {
		t.Errorf("read %d: %v", next, err)
	}
}

// TestWhatAStartReplaysStays: what no snapshot holds stays, whatever the bounds say,
// and what has left is counted.
func TestWhatAStartReplaysStays(t *testing.T) {
	t.Parallel()
	w, list, _ := sealedWorld(t)
	held := w.held()
	cfg := w.trimming(list...)
	replayed, fault := uint64(0), error(nil)
	cfg.Replayed = func() (uint64, error) { return replayed, fault }
	trimmer, err := archives.NewTrimmer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		replayed uint64
		fault    error
		first    uint64
	}{{0, nil, 1}, {19, nil, 11}, {20, errors.New("no"), 11}, {20, nil, 21}, {100, nil, 61}} {
		replayed, fault = one.replayed, one.fault
		if err := trimmer.Work(t.Context()); !errors.Is(err, fault) || w.log.First() != one.first {
			t.Errorf("%v: the hot log begins with %d: %v", one, w.log.First(), err)
		}
	}
	var bytes, records uint64
	for _, one := range held[:60] {
		n, err := ledger.CommitRecords(one)
		if err != nil {
			t.Fatal(err)
		}
		bytes, records = bytes+uint64(len(one)), records+uint64(n)
	}
	if got, want := trimmer.Status(), (archives.TrimStatus{Commits: 60, Records: records, Bytes: bytes}); got != want {
		t.Errorf("%+v has left, and not %+v", got, want)
	}
}

// TestSealsPieces: pieces are sealed as the log grows, by number and by age, and
// never an empty one.
func TestSealsPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 25)
	one, _ := inFolder(t)
	cfg := w.trimming(one)
	seal := func(want ...uint64) {
		t.Helper()
		if err := trimOnce(t.Context(), cfg); err != nil || !slices.Equal(w.log.Sealed(), want) {
			t.Errorf("sealed at %v, want %v: %v", w.log.Sealed(), want, err)
		}
	}
	cfg.Commits = 101
	seal(25)
	seal(25)
	cfg.Commits, cfg.Age = 0, time.Hour // the commits of tests are from 2023
	cfg.Now = func() time.Time { return time.Unix(1_700_000_000, 0).Add(10 * time.Minute) }
	w = newWorld(t, 25)
	cfg.Hot = w.log
	seal()
	cfg.Now = func() time.Time { return time.Unix(1_700_000_000, 0).Add(16 * time.Minute) }
	seal(25)
	cfg.Now = func() time.Time { return time.Unix(1_700_000_000, 0).Add(1000 * time.Hour) }
	seal(25) // it is old, and the hot log would have no commit without it
	if w.log.First() != 1 {
		t.Error("the hot log has no commit left")
	}
}

// TestPiecesAreBounded: while nothing can leave a log is sealed in so many pieces, however
// long it grows. When it can, all of it leaves that need not stay.
func TestPiecesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100)
	w.bounds.Records = 15
	one, dir := inFolder(t)
	w.archive(w.config(one), 90)
	cfg := w.trimming(one)
	cfg.Commits = 4 // each commit could be a piece
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	w.again(func(head ledger.Head) {
		if err := trimOnce(t.Context(), cfg); err == nil && head.Sequence > 4 {
			t.Fatal("something leaves, and nobody has it")
		}
		if got, want := len(w.log.Sealed()), min(int(head.Sequence), 32); got != want {
			t.Fatalf("%d commits are sealed in %d pieces, want %d", head.Sequence, got, want)
		}
	})
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	for _, first := range []uint64{33, 33} { // what was the last piece is sealed then, and its commits are the newest
		if err := trimOnce(t.Context(), cfg); err != nil || w.log.First() != first {
			t.Errorf("the hot log begins with %d, want %d: %v", w.log.First(), first, err)
		}
	}
	if sealed := w.log.Sealed(); !slices.Equal(sealed, []uint64{100}) {
		t.Errorf("sealed at %v", sealed)
	}
}

// TestNothingLeavesTooEarly: whatever is wrong with one of the archives, the hot
// log keeps everything, says why, and gives it up when that is mended.
func TestNothingLeavesTooEarly(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		spoil func(t *testing.T, dir string, parts []string)
		want  error // nil: any
	}{
		"a part of the piece is missing": {func(t *testing.T, _ string, parts []string) {
			lose(t, parts[0])
		}, archives.ErrMissing},
		"a bit was flipped": {func(t *testing.T, _ string, parts []string) {
			text := bytesOf(t, parts[0])
			text[len(text)/2] ^= 1
			spoil(t, parts[0], text)
		}, archives.ErrPart},
		"a part is short": {func(t *testing.T, _ string, parts []string) {
			text := bytesOf(t, parts[0])
			spoil(t, parts[0], text[:len(text)-3])
		}, archives.ErrPart},
		"a part has another one's bytes": {func(t *testing.T, _ string, parts []string) {
			spoil(t, parts[0], bytesOf(t, parts[2]))
		}, archives.ErrPart},
		"the store is away": {func(t *testing.T, dir string, _ []string) {
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, list, dirs := sealedWorld(t)
			parts, err := filepath.Glob(filepath.Join(dirs[1], "parts", "*"))
			if err != nil || len(parts) < 6 {
				t.Fatal(parts, err)
			}
			one.spoil(t, dirs[1], parts)
			err = trimOnce(t.Context(), w.trimming(list...))
			if err == nil || one.want != nil && !errors.Is(err, one.want) {
				t.Errorf("trimmed: %v, want %v", err, one.want)
			}
			if w.log.First() != 1 {
				t.Errorf("the hot log begins with %d", w.log.First())
			}
		})
	}
	t.Run("another ledger's archive", func(t *testing.T) {
		w, list, _ := sealedWorld(t)
		cfg := w.trimming(list...)
		cfg.Ledger[3] ^= 1
		if err := trimOnce(t.Context(), cfg); !errors.Is(err, archives.ErrOther) || w.log.First() != 1 {
			t.Errorf("first %d: %v", w.log.First(), err)
		}
	})
	t.Run("what has left before is missing", func(t *testing.T) {
		w, list, dirs := sealedWorld(t)
		cfg := w.trimming(list...)
		cfg.Commits = 70
		if err := trimOnce(t.Context(), cfg); err != nil || w.log.First() != 31 {
			t.Fatalf("first %d: %v", w.log.First(), err)
		}
		parts, err := filepath.Glob(filepath.Join(dirs[0], "parts", "*"))
		if err != nil {
			t.Fatal(err)
		}
		lose(t, parts[0])
		err = trimOnce(t.Context(), w.trimming(list...))
		if !errors.Is(err, archives.ErrMissing) || w.log.First() != 31 {
			t.Errorf("first %d: %v", w.log.First(), err)
		}
	})
	t.Run("the log differs", func(t *testing.T) {
		w, list, _ := sealedWorld(t)
		w.log.Edit(func(all [][]byte) [][]byte {
			all[7] = append(slices.Clone(all[7]), 0)
			return all
		})
		err := trimOnce(t.Context(), w.trimming(list...))
		if !errors.Is(err, archives.ErrFork) || w.log.First() != 1 {
			t.Errorf("first %d: %v", w.log.First(), err)
		}
	})
	t.Run("no archive, or no bound", func(t *testing.T) {
		w, list, _ := sealedWorld(t)
		unbounded := w.trimming(list...)
		unbounded.Commits = 0
		unknown := w.trimming(list...)
		unknown.Replayed = nil
		for _, cfg := range []archives.TrimConfig{w.trimming(), unbounded, unknown} {
			if err := trimOnce(context.Background(), cfg); !errors.Is(err, archives.ErrUnbounded) {
				t.Error(err)
			}
		}
	})
}

func lose(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func bytesOf(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func spoil(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}
