package logfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
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

// written is a file of some commits of a log.
func written(t testing.TB, log ledger.Log, from, to uint64) []byte {
	t.Helper()
	var out bytes.Buffer
	ledgertest.Must(logfile.Write(t.Context(), &out, log, logfile.Extent{From: from, To: to}))
	return out.Bytes()
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
		_, err := logfile.Write(t.Context(), io.Discard, log, logfile.Extent{From: r.from, To: r.to})
		if !errors.Is(err, logfile.ErrRange) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	log, _ := filled(f, 3)
	f.Add(written(f, log, 1, 3))
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
	part := ledgertest.Must(logfile.NewWriter(&out, header, logfile.Part))
	ledgertest.OK(t, log.Read(t.Context(), header.First, last, part.AddLinked), part.End(nil, &proof.Tree{}))
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
		err := logfile.ReadRange(file, size, r[0], r[1], ledgertest.InOrder(&next, func(e ledger.Entry) bool {
			return ledger.DigestOf(e.Data) == heads[e.Sequence-1].Digest
		}))
		if err != nil || next != r[1]+1 {
			t.Errorf("%v: up to %d, %v", r, next-1, err)
		}
	}
	ignore := func(ledger.Entry) error { return nil }
	for _, r := range [][2]uint64{{4, 5}, {9000, 9001}} {
		if err := logfile.ReadRange(file, size, r[0], r[1], ignore); !errors.Is(err, logfile.ErrDamaged) {
			t.Errorf("%v, which is not in it: %v", r, err)
		}
	}
	packed[index[1].Offset+100] ^= 1
	if err := logfile.ReadRange(file, size, second, 9000, ignore); !errors.Is(err, logfile.ErrDamaged) {
		t.Errorf("a damaged frame: %v", err)
	}
}

var packer = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
})

// packed compresses contents again, so that the checksum is right.
func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	encoder := ledgertest.Must(packer())
	return encoder.EncodeAll(data, nil)
}

// entries reads an archive without checking its entries.
func entries(data []byte) (n int, err error) {
	_, err = logfile.Read(bytes.NewReader(data), func(logfile.Header) error { return nil }, func(ledger.Entry) error {
		n++
		return nil
	})
	return n, err
}

// TestDamageInside changes every byte of the uncompressed contents, and cuts them
// at every byte. The archive's own form reveals what compression does not.
func TestDamageInside(t *testing.T) {
	t.Parallel()
	log, _ := filled(t, 4)
	for _, from := range []uint64{1, 3} {
		unpacker := ledgertest.Must(zstd.NewReader(bytes.NewReader(written(t, log, from, 4))))
		whole := ledgertest.Must(io.ReadAll(unpacker))
		unpacker.Close()
		if n, err := entries(packed(t, whole)); err != nil || n != int(5-from) {
			t.Fatalf("unchanged: %d commits, %v", n, err)
		}
		for i := range whole {
			changed := bytes.Clone(whole)
			changed[i] ^= 1 << (i % 8)
			// The ledger's id is checked where the log begins.
			_, err := entries(packed(t, changed))
			if inID := from > 1 && i >= 18 && i < 34; !inID && !errors.Is(err, logfile.ErrDamaged) {
				t.Fatalf("from %d: byte %d of %d changed from %x to %x: %v", from, i, len(whole), whole[i], changed[i], err)
			}
			if _, err := entries(packed(t, whole[:i])); !errors.Is(err, logfile.ErrDamaged) {
				t.Fatalf("from %d: cut at byte %d of %d: %v", from, i, len(whole), err)
			}
		}
		if _, err := entries(packed(t, append(bytes.Clone(whole), 0))); !errors.Is(err, logfile.ErrDamaged) {
			t.Errorf("a byte more: %v", err)
		}
	}
	if _, err := entries(nil); !errors.Is(err, logfile.ErrDamaged) {
		t.Errorf("nothing: %v", err)
	}
}

// file returns an archive of some values, with a right checksum.
func file(t *testing.T, arrays ...[]any) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := msgpack.NewEncoder(&out)
	for _, values := range arrays {
		ledgertest.OK(t, enc.Encode(values))
	}
	return packed(t, out.Bytes())
}

// TestForgedArchiveIsRefused: a forged archive contains false statements.
func TestForgedArchiveIsRefused(t *testing.T) {
	t.Parallel()
	log, heads := filled(t, 3)
	var commits [][]byte
	ledgertest.OK(t, log.Read(t.Context(), 1, 3, func(e ledger.Entry) error {
		commits = append(commits, e.Data)
		return nil
	}))
	first := ledgertest.Must(ledger.DecodeCommit(commits[0]))
	id := first.Records[0].Events[0].(ledger.LedgerCreated).Ledger
	header := func(version int, id []byte, first uint64, prev []byte) []any {
		return []any{"allot archive", version, id, first, prev}
	}
	none := make([]byte, 32)
	good := header(1, id[:], 1, none)
	end := func(count int, head ledger.Head, checkpoints any) []any {
		return []any{0, count, head.Digest[:], checkpoints}
	}
	one, two := []any{1, commits[0]}, []any{2, commits[1]}
	if n, err := entries(file(t, good, one, two, end(2, heads[1], [][]byte{}))); err != nil || n != 2 {
		t.Fatalf("the truth: %d commits, %v", n, err)
	}
	many := make([][]byte, 10_001)
	goodHeader := ledgertest.Must(msgpack.Marshal(good))
	for name, data := range map[string][]byte{
		"another kind of file":         file(t, []any{"allot archivf", 1, id[:], 1, none}, one, end(1, heads[0], nil)),
		"version 0":                    file(t, header(0, id[:], 1, none), one, end(1, heads[0], nil)),
		"a newer version":              file(t, header(3, id[:], 1, none), one, end(1, heads[0], nil)),
		"a short id":                   file(t, header(1, id[:15], 1, none), one, end(1, heads[0], nil)),
		"a long id":                    file(t, header(1, append(id[:], 0), 1, none), one, end(1, heads[0], nil)),
		"from sequence 0":              file(t, header(1, id[:], 0, none), one, end(1, heads[0], nil)),
		"a short digest":               file(t, header(1, id[:], 1, none[1:]), one, end(1, heads[0], nil)),
		"no commits":                   file(t, good, end(0, ledger.Head{}, nil)),
		"fewer commits than it says":   file(t, good, one, end(2, heads[0], nil)),
		"more commits than it says":    file(t, good, one, two, end(1, heads[1], nil)),
		"a commit left out":            file(t, good, one, []any{3, commits[2]}, end(2, heads[2], nil)),
		"a commit under another's":     file(t, good, one, []any{2, commits[2]}, end(2, heads[2], nil)),
		"a commit twice":               file(t, good, one, one, end(2, heads[0], nil)),
		"another end":                  file(t, good, one, two, end(2, heads[0], nil)),
		"an end that is short":         file(t, good, one, end(1, heads[0], nil)[:3]),
		"an end with more":             file(t, good, one, append(end(1, heads[0], nil), 1)),
		"too many checkpoints":         file(t, good, one, end(1, heads[0], many)),
		"a checkpoint too large":       file(t, good, one, end(1, heads[0], [][]byte{make([]byte, 16<<10+1)})),
		"checkpoints that are no list": file(t, good, one, end(1, heads[0], 7)),
		"bytes after the end":          file(t, good, one, end(1, heads[0], nil), one),
		"the beginning of nothing":     file(t, good, []any{1, commits[1]}, end(1, heads[1], nil)),
		"the beginning is no commit":   file(t, good, []any{1, []byte("hello")}, end(1, ledger.Head{}, nil)),
		"no header":                    file(t, one, end(1, heads[0], nil)),
		"no end":                       file(t, good, one),
		// It announces 4 GiB, of which a few bytes are there.
		"a length that lies": packed(t, append(goodHeader, 0x92, 1, 0xc6, 0xff, 0xff, 0xff, 0xff, 1, 2, 3)),
	} {
		if n, err := entries(data); !errors.Is(err, logfile.ErrDamaged) {
			t.Errorf("%s: %d entries, %v", name, n, err)
		}
	}
}

// full is a file on a disk that takes only some bytes.
type full struct{ left int }

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteFails: a log that cannot be read, a damaged log and a full disk are
// errors; a log with foreign entries is not.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	errInjected := errors.New("injected")
	good, heads := filled(t, 6)
	away := func(from, to uint64) *memlog.Log {
		log, _ := filled(t, 6)
		log.Away = func(_ context.Context, upTo uint64) error {
			if from <= upTo && upTo <= to {
				return errInjected
			}
			return nil
		}
		return log
	}
	swapped, _ := filled(t, 6)
	swapped.Edit(func(entries [][]byte) [][]byte {
		entries[3] = entries[1]
		return entries
	})
	headless, _ := filled(t, 6)
	headless.Edit(func(entries [][]byte) [][]byte { return append([][]byte{[]byte("hello")}, entries[1:]...) })
	shifted, _ := filled(t, 6)
	shifted.Edit(func(entries [][]byte) [][]byte { return entries[1:] })
	var bad *chain.BadEntryError
	for name, c := range map[string]struct {
		log      ledger.Log
		from, to uint64
		out      io.Writer
		why      error
		bad      uint64
	}{
		"the end is not known":     {away(0, 0), 1, 6, io.Discard, errInjected, 0},
		"nothing can be read":      {away(1, 6), 1, 6, io.Discard, errInjected, 0},
		"the head cannot be read":  {away(2, 6), 4, 6, io.Discard, errInjected, 0},
		"the disk is full":         {good, 1, 6, &full{100}, errFull, 0},
		"the disk was full before": {good, 1, 6, &full{}, errFull, 0},
		"a commit is damaged":      {swapped, 1, 5, io.Discard, nil, 4},
		"the last one is damaged":  {swapped, 1, 4, io.Discard, nil, 4},
		"the first is no commit":   {headless, 2, 4, io.Discard, nil, 1},
		"the first is another":     {shifted, 2, 4, io.Discard, nil, 1},
	} {
		_, err := logfile.Write(t.Context(), c.out, c.log, logfile.Extent{From: c.from, To: c.to})
		if c.why != nil && !errors.Is(err, c.why) || c.bad > 0 && (!errors.As(err, &bad) || bad.Sequence != c.bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := logfile.Write(cancelled, io.Discard, good, logfile.Extent{From: 1, To: 6})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	var steps [][2]uint64
	head, err := logfile.Write(t.Context(), io.Discard, good, logfile.Extent{
		From: 3, To: 5, Progress: func(done, total uint64) { steps = append(steps, [2]uint64{done, total}) },
	})
	if err != nil || head != heads[4] || !slices.Equal(steps, [][2]uint64{{1, 3}, {2, 3}, {3, 3}}) {
		t.Errorf("%v, %v, %v", head, steps, err)
	}
}
