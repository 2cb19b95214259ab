package projector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/allot-project/allot/projector/past"
)

// modelsWithEpochs opens read models from which epochs have left, each with so many files.
// No epoch has rows.
func modelsWithEpochs(tb testing.TB, epochs, files int, r *rand.Rand) (*models, []epochFiles) {
	tb.Helper()
	p, err := Open(tb.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	m := p.models.Load()
	var list []epochFiles
	for n := range epochs {
		one := epochFiles{epoch: &epoch{first: uint64(100 * n), last: uint64(100*n + 100), chunks: 1, files: files}}
		if one.filter, err = newEpochFilter(1).chunks(); err != nil {
			tb.Fatal(err)
		}
		at := uint32(0)
		next := func() []byte {
			at += r.Uint32N(1<<31/uint32(files)) + 1
			return binary.BigEndian.AppendUint32([]byte{tableConsumer}, at)
		}
		for i := range files {
			f := epochFile{File: past.File{Form: schemaVersion, First: one.first, Last: one.last, Number: i, Bytes: 1}}
			f.low = next()
			if f.high = f.low; r.IntN(4) > 0 { // some have one row
				f.high = next()
			}
			one.list = append(one.list, f)
		}
		if err := m.keepEpoch(one); err != nil {
			tb.Fatal(err)
		}
		list = append(list, one)
	}
	return m, list
}

// TestFilesWithin: of an epoch's files those are found that may have rows in some ranges,
// those at its ends, each once, and none of another epoch.
func TestFilesWithin(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	m, epochs := modelsWithEpochs(t, 3, 200, r)
	for range 3000 {
		e := epochs[r.IntN(len(epochs))]
		bound := func() []byte {
			f := e.list[r.IntN(len(e.list))]
			key := slices.Clone([][]byte{f.low, f.high}[r.IntN(2)])
			switch r.IntN(4) {
			case 0:
				return append(key, 0)
			case 1:
				return key[:len(key)-1]
			}
			return key
		}
		var ranges []keyRange
		for range r.IntN(4) {
			ranges = append(ranges, keyRange{bound(), bound()}) // some are empty, and some overlap
		}
		var want []past.File
		for _, f := range e.list {
			if slices.ContainsFunc(ranges, func(in keyRange) bool {
				return bytes.Compare(f.low, in.upper) < 0 && bytes.Compare(f.high, in.lower) >= 0
			}) {
				want = append(want, f.File)
			}
		}
		got, err := m.filesWithin(e.epoch, ranges...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d files of the epoch up to %d in %x, and not %d", len(got), e.last, ranges, len(want))
		}
	}
}

// TestFileIsMissing: whoever looks where a file of an epoch is listed no longer is told so,
// and whoever looks elsewhere is not.
func TestFileIsMissing(t *testing.T) {
	t.Parallel()
	m, epochs := modelsWithEpochs(t, 3, 20, rand.New(rand.NewPCG(1, 2)))
	e := epochs[1]
	within := func(e *epoch, in keyRange) error {
		it, err := m.cursor(fileKey(e.last), fileKey(e.last+1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = appendFiles(nil, it, e, in)
		if closing := it.close(); closing != nil {
			t.Error(closing)
		}
		return err // finish would keep the damage in mind
	}
	for lost, f := range e.list {
		if err := m.db.Delete(f.key(), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		for i, of := range e.list {
			err := within(e.epoch, keyRange{of.low, append(slices.Clone(of.high), 0)})
			if near := i >= lost-1 && i <= lost+1; near != errors.Is(err, ErrDamaged) {
				t.Errorf("file %d is missing, and looked for was %d: %v", lost, i, err)
			}
		}
		if err := within(epochs[2].epoch, keyRange{nil, []byte{0xff}}); err != nil {
			t.Errorf("file %d is missing, and looked for were those of the next epoch: %v", lost, err)
		}
		if err := m.db.Set(f.key(), f.value(), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.db.Delete(e.list[7].key(), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if _, err := m.allFiles(e.epoch); !errors.Is(err, ErrDamaged) || m.fault() == nil {
		t.Errorf("a file is missing: %v", err)
	}
}

// BenchmarkEpochsWithoutAnEntity looks for an entity in the filters of 200 epochs, which
// have nothing of it, as a history does. What that takes must not grow with their files.
func BenchmarkEpochsWithoutAnEntity(b *testing.B) {
	for _, files := range []int{1, 30, 1000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			m, _ := modelsWithEpochs(b, 200, files, rand.New(rand.NewPCG(1, 2)))
			for b.Loop() {
				n := 0
				if err := m.epochsBack(200*100, func(e *epoch) (bool, error) {
					n++
					may, err := m.mayTouch(e, []byte("nobody"))
					return !may, err
				}); err != nil || n != 200 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
