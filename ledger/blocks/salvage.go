package blocks

import (
	"context"
	"fmt"
	"os"

	"github.com/allot-project/allot/ledger"
)

// Salvage yields every commit that is whole, in the order of the files,
// whatever is damaged between them, and returns the damage. Whether a commit
// follows the one before is for the caller to see.
func (f Folder) Salvage(ctx context.Context, yield func(ledger.Entry, ledger.Digest) error) ([]DamageError, error) {
	list, err := f.blocks()
	if err != nil {
		return nil, err
	}
	var damage []DamageError
	last := uint64(0)
	for _, b := range list {
		buf, err := os.ReadFile(b.path)
		if err != nil {
			return damage, fmt.Errorf("blocks: %w", err)
		}
		sum := blockHash(f.Stream, b.number)
		for offset := 0; offset < len(buf); {
			if ctx.Err() != nil {
				return damage, ctx.Err()
			}
			r, reason := parse(buf, offset, sum)
			var prev ledger.Digest
			if reason == "" {
				prev, reason = f.linkOf(r)
			}
			if reason == "" {
				if err := yield(ledger.Entry{Sequence: r.sequence, Data: r.data}, prev); err != nil {
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

// linkOf returns the digest of the commit before; the reason says why the
// record is no commit.
func (f Folder) linkOf(r record) (prev ledger.Digest, reason string) {
	if r.sequence&(erasedBit|tombstoneBit) != 0 {
		return prev, "it says that a message was deleted"
	}
	if string(r.subject) != f.Subject {
		return prev, fmt.Sprintf("its subject is %.80q", r.subject)
	}
	sequence, prev, err := ledger.CommitLink(r.data)
	if err != nil {
		return prev, err.Error()
	}
	if sequence != r.sequence {
		return prev, fmt.Sprintf("the commit says that it has sequence %d, and the record that it has %d", sequence, r.sequence)
	}
	return prev, ""
}
