package archive

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// Verification is what an archive and a public key, and nothing else, tell of a log.
type Verification struct {
	Ledger ledger.UUID
	Position
	Parts       int    // good ones
	Checkpoints int    // good ones
	Vouched     uint64 // the last sequence of a good checkpoint
	Kept        int    // checkpoints that others have kept, of this log
}

// VerifyOptions say what is verified.
type VerifyOptions struct {
	// From is what was verified before; nil: begin at the beginning.
	From *Verification
	Keys note.Verifiers // nil: checkpoints are not checked
	// Kept are checkpoints that an auditor has kept, not the log's operator.
	Kept   []proof.Checkpoint
	Folder string // for parts that are fetched
	// Known is called after each good part with what is known by then.
	Known func(*Verification) error
}

// Verify reads an archive to its end: every part with its checksums, the chain of
// digests, every record's leaf in the Merkle tree, and the signed checkpoints
// against both. The first damage ends it; what was good before is returned.
func (a *Archive) Verify(ctx context.Context, o VerifyOptions) (*Verification, error) {
	v := &verifier{VerifyOptions: o, archive: a, known: &Verification{Position: Beginning()}}
	if o.From != nil {
		again := *o.From
		again.Kept, v.known = 0, &again
	}
	for _, c := range o.Kept {
		if c.Sequence <= v.known.Sequence {
			return v.known, fmt.Errorf("a checkpoint that was kept is of sequence %d, and everything up to %d was verified without it: "+
				"verify from the beginning", c.Sequence, v.known.Sequence)
		}
	}
	if err := a.Refresh(ctx); err != nil {
		return v.known, err
	}
	if count, _ := a.Stored(); count == 0 {
		return v.known, fmt.Errorf("%w: %s has no part", ErrEmpty, a)
	}
	id, err := a.Ledger(ctx)
	if err == nil && o.From != nil && id != v.known.Ledger {
		err = fmt.Errorf("%w: %s is of the ledger %s, and before it was %s", ErrOther, a, id, v.known.Ledger)
	}
	if err != nil {
		return v.known, err
	}
	v.known.Ledger = id
	for {
		if err := v.next(ctx); errors.Is(err, errEnd) {
			return v.known, v.end()
		} else if err != nil {
			return v.known, err
		}
	}
}

type verifier struct {
	VerifyOptions
	archive *Archive
	known   *Verification
}

// next verifies the next part.
func (v *verifier) next(ctx context.Context) error {
	file, err := scratch(v.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	name, header, trailer, err := v.archive.part(ctx, v.known.Head, file)
	if err != nil {
		return err
	}
	if header.Ledger != v.known.Ledger {
		return fmt.Errorf("%w: %s/%s is of the ledger %s, and not %s", ErrOther, v.archive, name, header.Ledger, v.known.Ledger)
	}
	signed, err := v.signed(name, trailer)
	if err != nil {
		return err
	}
	now := *v.known
	now.Tree, now.Parts = v.known.Tree.Copy(), now.Parts+1
	_, _, err = check(name, file, logfile.ReadCommits, func(c *ledger.Commit) error {
		now.Head = c.Head()
		now.Tree.Add(c.Leaves)
		return errors.Join(ctx.Err(), now.compare(signed[c.Sequence]))
	})
	if errors.Is(err, ErrFork) || ctx.Err() != nil {
		return fmt.Errorf("%s/%s: %w", v.archive, name, err)
	}
	if err == nil && (trailer.Tree.Size() != now.Tree.Size() || trailer.Tree.Root() != now.Tree.Root()) {
		err = fmt.Errorf("it says that the tree has %d records with the root %.8s, and it has %d with %.8s",
			trailer.Tree.Size(), trailer.Tree.Root(), now.Tree.Size(), now.Tree.Root())
	}
	if err != nil {
		return fmt.Errorf("%w: %s/%s: %w", ErrPart, v.archive, name, err)
	}
	v.known = &now
	if v.Known != nil {
		return v.Known(&now)
	}
	return nil
}

// signed returns what is signed of a part's commits, by sequence: in the part
// itself, and by what others have kept.
func (v *verifier) signed(name Name, trailer logfile.Trailer) (map[uint64][]vouching, error) {
	found := make(map[uint64][]vouching)
	for i, text := range trailer.Checkpoints {
		if v.Keys == nil {
			break
		}
		c, err := proof.Open(text, v.Keys)
		if errors.Is(err, proof.ErrSigner) {
			return nil, fmt.Errorf("%s/%s: %w", v.archive, name, err) // perhaps the key is the wrong one, and not the part
		}
		if err != nil {
			return nil, fmt.Errorf("%w: checkpoint %d in %s/%s: %w", ErrPart, i, v.archive, name, err)
		}
		if c.Sequence < name.First || c.Sequence > name.Last.Sequence {
			return nil, fmt.Errorf("%w: checkpoint %d in %s/%s is of sequence %d", ErrPart, i, v.archive, name, c.Sequence)
		}
		found[c.Sequence] = append(found[c.Sequence], vouching{*c, true})
	}
	for _, c := range v.Kept {
		found[c.Sequence] = append(found[c.Sequence], vouching{c, false})
	}
	return found, nil
}

// vouching is a checkpoint, and whether it comes from the archive.
type vouching struct {
	proof.Checkpoint
	own bool
}

// compare compares what is signed of a commit with the log up to there.
func (v *Verification) compare(signed []vouching) error {
	for _, one := range signed {
		is := proof.Checkpoint{Ledger: v.Ledger, Size: v.Tree.Size(), Root: v.Tree.Root(), Head: v.Head}
		if one.Checkpoint != is {
			return fmt.Errorf("%w: the checkpoint of sequence %d is of %d records with the root %.8s and the digest %.8s, and there are "+
				"%d with %.8s and %.8s", ErrFork, one.Sequence, one.Size, one.Root, one.Digest, is.Size, is.Root, is.Digest)
		}
		if one.own {
			v.Checkpoints++
			v.Vouched = v.Sequence
		} else {
			v.Kept++
		}
	}
	return nil
}

// end checks what only the whole archive can say.
func (v *verifier) end() error {
	if want := len(v.Kept); v.known.Kept != want {
		return fmt.Errorf("%w: it ends at sequence %d, and of %d checkpoints that were kept %d are not of commits in it", ErrFork,
			v.known.Sequence, want, want-v.known.Kept)
	}
	if v.Keys != nil && v.known.Vouched < v.known.Sequence {
		return fmt.Errorf("%w: sequences %d to %d of %s", ErrUnsigned, v.known.Vouched+1, v.known.Sequence, v.archive)
	}
	return nil
}
