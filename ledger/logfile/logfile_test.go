package logfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/ledger/proof"
)

// filled is a log of some commits, with their digests.
func filled(t testing.TB, n int) (*memlog.Log, []ledger.Head) {
	t.Helper()
	log := &memlog.Log{}
	var heads []ledger.Head
	commits := ledgertest.Commits(t, n)
	ledgertest.AppendCommits(t, log, commits)
	for _, c := range commits {
		heads = append(heads, c.Head())
	}
	return log, heads
}

func read(data []byte) (first uint64, heads []ledger.Head, err error) {
	_, err = logfile.Read(bytes.NewReader(data), func(h logfile.Header) error {
		first = h.First
		return nil
	}, func(e ledger.Entry) error {
		c, err := ledger.DecodeCommit(e.Data)
		if err != nil || c.Sequence != e.Sequence {
			return fmt.Errorf("entry %d: %w", e.Sequence, err)
		}
		heads = append(heads, c.Head())
		return nil
	})
	return first, heads, err
}

// TestRanges: an archive returns what was written, whole or in part; ranges that
// the log does not have are refused.
func TestRanges(t *testing.T) {
	log, heads := filled(t, 20)
	for _, r := range []struct{ from, to uint64 }{{1, 20}, {1, 1}, {7, 12}, {20, 20}} {
		var out bytes.Buffer
		head, err := logfile.Write(t.Context(), &out, log, logfile.Extent{From: r.from, To: r.to})
		if err != nil || head != heads[r.to-1] {
			t.Fatalf("%v: %v, %v", r, head, err)
		}
		first, got, err := read(out.Bytes())
		if err != nil || first != r.from || len(got) != int(r.to-r.from+1) || got[0] != heads[r.from-1] {
			t.Errorf("%v: from %d %d commits, %v", r, first, len(got), err)
		}
	}
	for _, r := range []struct{ from, to uint64 }{{0, 1}, {5, 4}, {1, 21}, {30, 40}} {
		if _, err := logfile.Write(t.Context(), new(bytes.Buffer), log, logfile.Extent{From: r.from, To: r.to}); !errors.Is(
			err, logfile.ErrRange,
		) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// TestDamage: flipped bits, cuts and additions are all found. zstd has bits that say
// nothing: what is read with one of these flipped is the same.
func TestDamage(t *testing.T) {
	log, heads := filled(t, 20)
	var out bytes.Buffer
	if _, err := logfile.Write(t.Context(), &out, log, logfile.Extent{From: 1, To: 20}); err != nil {
		t.Fatal(err)
	}
	whole := out.Bytes()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		damaged := bytes.Clone(whole)
		switch at := random.IntN(len(damaged)); i % 4 {
		case 0, 1:
			damaged[at] ^= 1 << random.IntN(8)
		case 2:
			damaged = damaged[:at]
		case 3:
			damaged = append(damaged, byte(random.IntN(256)))
		}
		if _, got, err := read(damaged); err == nil && (i%4 > 1 || !slices.Equal(got, heads)) {
			t.Fatalf("damage %d goes unnoticed", i)
		}
	}
}

func FuzzRead(f *testing.F) {
	log, _ := filled(f, 3)
	var out bytes.Buffer
	if _, err := logfile.Write(f.Context(), &out, log, logfile.Extent{From: 1, To: 3}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := read(data); err != nil && !errors.Is(err, logfile.ErrDamaged) {
			t.Errorf("error of another kind: %v", err)
		}
	})
}

// partOf packs the commits of a log up to a sequence, from where a header begins.
func partOf(t *testing.T, log ledger.Log, header logfile.Header, last uint64) []byte {
	t.Helper()
	var out bytes.Buffer
	part, err := logfile.NewPart(&out, header)
	if err == nil {
		err = log.Read(t.Context(), header.First, last, part.AddLinked)
	}
	if err == nil {
		err = part.End(nil, &proof.Tree{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestFrames: a part has several frames; any range is read through its index as
// it was written, and readers that know nothing of the index read all of it.
func TestFrames(t *testing.T) {
	log, heads := filled(t, 9000)
	packed := partOf(t, log, logfile.Header{Ledger: ledger.UUID{1}, First: 5, Prev: heads[3].Digest}, 9000)
	file, size := bytes.NewReader(packed), int64(len(packed))
	index, err := logfile.ReadIndex(file, size)
	if err != nil || len(index) < 2 {
		t.Fatalf("%v, %v", index, err)
	}
	if first, got, err := read(packed); err != nil || first != 5 || len(got) != 8996 {
		t.Errorf("from %d, %d commits, %v", first, len(got), err)
	}
	second := index[1].Sequence
	for _, r := range [][2]uint64{
		{5, 9000}, {5, 5}, {9000, 9000}, {second - 1, second}, {second, second}, {second + 1, 9000},
	} {
		next := r[0]
		err := logfile.ReadRange(file, size, r[0], r[1], func(e ledger.Entry) error {
			if e.Sequence != next || ledger.DigestOf(e.Data) != heads[next-1].Digest {
				return fmt.Errorf("%d is not %d", e.Sequence, next)
			}
			next++
			return nil
		})
		if err != nil || next != r[1]+1 {
			t.Errorf("%v: up to %d, %v", r, next-1, err)
		}
	}
	for _, r := range [][2]uint64{{4, 5}, {9000, 9001}} {
		err := logfile.ReadRange(file, size, r[0], r[1], func(ledger.Entry) error { return nil })
		if !errors.Is(err, logfile.ErrDamaged) {
			t.Errorf("%v, which is not in it: %v", r, err)
		}
	}
}

// TestReadersOfFrames: readers at a time, some of damaged files, get what they asked for or
// are told: none has anything of another one's.
func TestReadersOfFrames(t *testing.T) {
	t.Parallel()
	log, heads := filled(t, 9000)
	packed := partOf(t, log, logfile.Header{First: 1}, 9000)
	file, size := bytes.NewReader(packed), int64(len(packed))
	index, err := logfile.ReadIndex(file, size)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("that is enough")
	var readers sync.WaitGroup
	for seed := range uint64(4) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for round := range 50 {
				data, damaged := packed, round%3 == 0
				frame := index[random.IntN(len(index))]
				from := frame.Sequence + random.Uint64N(100)
				if damaged {
					data = bytes.Clone(data)
					data[frame.Offset+int64(random.IntN(1000))] ^= 1 << random.IntN(8)
				}
				next, wrong := from, false
				err := logfile.ReadRange(bytes.NewReader(data), size, from, from+20, func(e ledger.Entry) error {
					wrong = wrong || e.Sequence != next || ledger.DigestOf(e.Data) != heads[next-1].Digest
					if next++; random.IntN(30) == 0 {
						return enough
					}
					return nil
				})
				told := errors.Is(err, logfile.ErrDamaged)
				if done := err == nil && next == from+21 || errors.Is(err, enough); !damaged && (wrong || !done) || !done && !told {
					t.Errorf("from %d, damaged %v: up to %d, wrong %v, %v", from, damaged, next-1, wrong, err)
				}
			}
		})
	}
	readers.Wait()
}
