package blocks

import (
	"context"
	"os"

	"github.com/allot-project/allot/ledger"
)

// ScanIntact yields every whole entry, in the order of the files, whatever damage
// lies between them, and returns the damage; what a disk cannot read is damage, too. The caller must check whether an
// entry is a commit that follows the one before.
func (f Folder) ScanIntact(ctx context.Context, yield func(ledger.Entry) error) ([]DamageError, error) {
	list, err := f.blocks()
	if err != nil {
		return nil, err
	}
	var damage []DamageError
	last := uint64(0)
	for _, b := range list {
		buf, err := os.ReadFile(b.path) // with an error, too, it returns what comes before
		if err != nil {
			damage = append(damage, DamageError{
				After: ledger.Head{Sequence: last}, Path: b.path, Offset: len(buf), Reason: err.Error(),
			})
		}
		sum := blockHash(f.Stream, b.number)
		for offset := 0; offset < len(buf); {
			if ctx.Err() != nil {
				return damage, ctx.Err()
			}
			r, reason := parse(buf, offset, sum)
			if reason == "" {
				reason = f.strange(r)
			}
			if reason == "" {
				if err := yield(ledger.Entry{Sequence: r.sequence, Data: r.data}); err != nil {
					return damage, err
				}
				last, offset = r.sequence, offset+r.length
				continue
			}
			next, found := goodAfter(buf, offset+1, last, sum)
			damage = append(damage, DamageError{
				After: ledger.Head{Sequence: last}, Next: next.sequence, Path: b.path, Offset: offset, Reason: reason,
			})
			if !found {
				break
			}
			offset = next.offset
		}
	}
	return damage, nil
}
