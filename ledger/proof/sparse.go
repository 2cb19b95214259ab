package proof

import (
	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
)

// LevelsApart is how many levels of the tree lie between those whose hashes are
// kept, from this one on: a hash for each 256 records. The hashes between them are
// computed from at most 128 of these; those below, from the log.
const LevelsApart = 8

// Wide is how many hashes of a level are below one of the next level that is kept.
const Wide = 1 << LevelsApart

// Row are the hashes of one level that a commit's records complete, in order.
// Their numbers count in this level, from 0.
type Row struct {
	Level  int
	First  int64
	Hashes []ledger.Digest
}

// Sparse selects, of the hashes that Add returned, those that are kept: by level,
// the lowest first. size is that of the tree before.
func Sparse(size int64, complete []ledger.Digest) []Row {
	var kept []Row
	number := tlog.StoredHashCount(size)
	for i, hash := range complete {
		level, n := tlog.SplitStoredHashIndex(number + int64(i))
		if level == 0 || level%LevelsApart != 0 {
			continue
		}
		at := level/LevelsApart - 1
		for len(kept) <= at {
			kept = append(kept, Row{Level: (len(kept) + 1) * LevelsApart, First: n})
		}
		if len(kept[at].Hashes) == 0 {
			kept[at].First = n
		}
		kept[at].Hashes = append(kept[at].Hashes, hash)
	}
	return kept
}

// FromSparse finds all hashes of the tree with the leaves and those that are kept:
// read returns count hashes of such a level, from one of them on, and they may be
// overwritten.
func FromSparse(read func(level int, first, count int64) ([]ledger.Digest, error)) Hashes {
	return func(numbers []int64) ([]ledger.Digest, error) {
		found := make([]ledger.Digest, len(numbers))
		for i, number := range numbers {
			level, n := tlog.SplitStoredHashIndex(number)
			above := level % LevelsApart
			row, err := read(level-above, n<<above, 1<<above)
			if err != nil {
				return nil, err
			}
			found[i] = rootOf(hashes(row))
		}
		return found, nil
	}
}

// rootOf returns the root of a complete tree over these hashes, of which there is a
// power of two. It overwrites them.
func rootOf(row []tlog.Hash) ledger.Digest {
	for ; len(row) > 1; row = row[:len(row)/2] {
		for i := range len(row) / 2 {
			row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
		}
	}
	return ledger.Digest(row[0])
}

// KeptCount returns how many hashes of a level are kept for a tree of a size.
func KeptCount(level int, size int64) int64 { return size >> level }
