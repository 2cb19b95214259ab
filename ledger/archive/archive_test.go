package archive_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// filled is a log of some commits, with their digests.
func filled(t testing.TB, n int) (*memlog.Log, []ledger.Head) {
	t.Helper()
	log := &memlog.Log{}
	var heads []ledger.Head
	for _, c := range ledgertest.Commits(t, n) {
		encoded, err := ledger.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		log.Append(c.Sequence, encoded, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		heads = append(heads, c.Head())
	}
	return log, heads
}

func read(data []byte) (first uint64, heads []ledger.Head, err error) {
	_, err = archive.Read(bytes.NewReader(data), func(h archive.Header) error {
		first = h.First
		return nil
	}, func(c *ledger.Commit, stored []byte) error {
		if ledger.DigestOf(stored) != c.Digest {
			return errors.New("another digest")
		}
		heads = append(heads, c.Head())
		return nil
	})
	return first, heads, err
}

// TestRanges: what was written is read, whole or in part; ranges that are not
// there are refused.
func TestRanges(t *testing.T) {
	log, heads := filled(t, 20)
	for _, r := range []struct{ from, to uint64 }{{1, 20}, {1, 1}, {7, 12}, {20, 20}} {
		var out bytes.Buffer
		head, err := archive.Write(t.Context(), &out, log, r.from, r.to, nil)
		if err != nil || head != heads[r.to-1] {
			t.Fatalf("%v: %v, %v", r, head, err)
		}
		first, got, err := read(out.Bytes())
		if err != nil || first != r.from || len(got) != int(r.to-r.from+1) || got[0] != heads[r.from-1] {
			t.Errorf("%v: from %d %d commits, %v", r, first, len(got), err)
		}
	}
	for _, r := range []struct{ from, to uint64 }{{0, 1}, {5, 4}, {1, 21}, {30, 40}} {
		if _, err := archive.Write(t.Context(), new(bytes.Buffer), log, r.from, r.to, nil); !errors.Is(err, archive.ErrRange) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// TestDamage: flipped bits, cuts and additions are found, all of them.
func TestDamage(t *testing.T) {
	log, _ := filled(t, 20)
	var out bytes.Buffer
	if _, err := archive.Write(t.Context(), &out, log, 1, 20, nil); err != nil {
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
		if _, _, err := read(damaged); err == nil {
			t.Fatalf("damage %d goes unnoticed", i)
		}
	}
}

func FuzzRead(f *testing.F) {
	log, _ := filled(f, 3)
	var out bytes.Buffer
	if _, err := archive.Write(f.Context(), &out, log, 1, 3, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := read(data); err != nil && !errors.Is(err, archive.ErrDamaged) {
			t.Errorf("error of another kind: %v", err)
		}
	})
}
