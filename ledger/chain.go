package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// A log may hold entries that are not its writer's: somebody who could publish
// on its subject did. Which ones those are must be clear to every reader alike,
// and no damaged commit may be taken for one. The rule, which Chain applies and
// nobody else:
//
//   - An entry is a commit of the ledger if it decodes, says the sequence that it
//     has, and holds the digest of the commit before it.
//   - Any other entry is passed over if a later commit holds the digest of the
//     commit before that entry: the writer, too, passed it over. The commit after
//     a damaged one holds the digest of what was there, and so proves damage.
//   - At the end of the log, where no commit follows yet, an entry is passed over
//     only if nothing about it is like the writer's (see looksForeign), or if an
//     operator says so (see PassOver). Whoever has seen a commit there knows its
//     digest, and compares it before (see writer.Restore).
//
// The writer gives its next commit the sequence after what it passed over, and
// so leaves the proof.

// maxDoubted is how many well-formed commits in a row may follow a doubtful entry
// without being its ledger's before that counts as damage.
const maxDoubted = 64

// Chain tells the commits of a ledger from what else its log holds. It is fed
// the log's entries in order.
type Chain struct {
	prev Head
	// doubt is the first entry after prev that is no commit of the ledger;
	// nil: there is none. unlike says that all of them look foreign.
	doubt   *BadEntryError
	unlike  bool
	doubted int // well-formed commits among them
	vouched []uint64
}

// NewChain returns a Chain that goes on after a commit.
func NewChain(prev Head) *Chain { return &Chain{prev: prev} }

// Head is that of the last commit.
func (c *Chain) Head() Head { return c.prev }

// Vouch names entries of which an operator says that they are not the ledger's.
func (c *Chain) Vouch(sequences []uint64) { c.vouched = sequences }

// Next returns the commit that an entry holds, or nil if it is none as far as
// one can tell. What it has to be if it is none, End or a later commit says.
func (c *Chain) Next(entry Entry) (*Commit, error) {
	commit, err := DecodeCommit(entry.Data)
	if err == nil && commit.Sequence == entry.Sequence && commit.Prev == c.prev.Digest {
		c.follow(commit.Head())
		return commit, nil
	}
	return nil, c.doubtful(entry, err)
}

// NextLink is Next for whoever needs no more of a commit than that it is one:
// what it holds is not decoded.
func (c *Chain) NextLink(entry Entry) (isCommit bool, err error) {
	sequence, prev, err := CommitLink(entry.Data)
	if err == nil && sequence == entry.Sequence && prev == c.prev.Digest {
		c.follow(Head{Sequence: sequence, Digest: DigestOf(entry.Data)})
		return true, nil
	}
	return false, c.doubtful(entry, err)
}

// NextRun is NextLink for commits of which it is known that each follows the
// one before: the first one follows prev. It returns false, and does nothing,
// if that is not the commit that was there last.
func (c *Chain) NextRun(prev Digest, last Head) bool {
	if prev != c.prev.Digest {
		return false
	}
	c.follow(last)
	return true
}

func (c *Chain) follow(head Head) { c.prev, c.doubt, c.doubted = head, nil, 0 }

// doubtful takes note of an entry that is no commit as far as one can tell; err
// is why it cannot be read as one.
func (c *Chain) doubtful(entry Entry, err error) error {
	vouched := slices.Contains(c.vouched, entry.Sequence)
	if err == nil {
		err = ErrChain
		if !vouched {
			c.doubted++
		}
	}
	if c.doubt == nil {
		c.doubt, c.unlike = &BadEntryError{Sequence: entry.Sequence, Err: err}, true
	}
	c.unlike = c.unlike && (vouched || looksForeign(entry.Data, c.prev.Digest))
	if c.doubted > maxDoubted {
		return c.doubt
	}
	return nil
}

// End says whether the log may end here.
func (c *Chain) End() error {
	if c.doubt == nil || c.unlike {
		return nil
	}
	return c.doubt
}

// markReach is how far into a commit the digest of the one before it stands.
const markReach = 64

// looksForeign reports whether nothing about an entry is like what the writer
// appends: it does not begin as a commit does, of whatever version, it does not
// hold the digest of the commit before it near its beginning, and it is not
// what a disk leaves of a commit that it lost.
func looksForeign(data []byte, prev Digest) bool {
	const fields = 0x94 // msgpack's array of four
	if len(bytes.Trim(data, "\x00")) == 0 || data[0] == fields {
		return false
	}
	return !bytes.Contains(data[:min(len(data), markReach)], prev[:])
}

// ReadCommits reads and decodes the commits after prev up to to and checks
// that they chain, the first one to prev. It passes over what is no commit of
// this ledger, see Chain.
func ReadCommits(ctx context.Context, log Log, prev Head, to uint64, yield func(*Commit) error) error {
	chain := NewChain(prev)
	if v, ok := log.(vouched); ok {
		chain.vouched = v.sequences
	}
	err := log.Read(ctx, prev.Sequence+1, to, func(entry Entry) error {
		commit, err := chain.Next(entry)
		if commit == nil || err != nil {
			return err
		}
		return yield(commit)
	})
	if err != nil {
		return err
	}
	return settle(ctx, log, chain, to)
}

// settle asks whether the entries up to a sequence may end as they do: if that
// is not the end of the log, by what follows.
func settle(ctx context.Context, log Log, chain *Chain, to uint64) error {
	err := chain.End()
	if err == nil {
		return nil
	}
	last, lastErr := log.Last(ctx)
	if lastErr != nil || last <= to {
		return err
	}
	readErr := log.Read(ctx, to+1, last, func(entry Entry) error {
		commit, err := chain.Next(entry)
		if commit != nil {
			return errSettled
		}
		return err
	})
	if errors.Is(readErr, errSettled) {
		return nil
	}
	if readErr != nil {
		return readErr
	}
	return chain.End()
}

var errSettled = errors.New("ledger: it is settled")

// HeadBefore finds the last commit before a sequence.
func HeadBefore(ctx context.Context, log Log, sequence uint64) (Head, error) {
	for at := sequence - 1; at > 0; at-- {
		var head Head
		err := log.Read(ctx, at, at, func(entry Entry) error {
			if commit, err := DecodeCommit(entry.Data); err == nil && commit.Sequence == at {
				head = commit.Head()
			}
			return nil // what is damaged breaks the chain of those after it
		})
		if err != nil || head.Sequence > 0 {
			return head, err
		}
	}
	return Head{}, nil
}

// PassOver is a log of which an operator says that these entries are not the
// ledger's. That needs to be said until its next commit, which proves it. A
// commit that chains is never passed over.
func PassOver(log Log, sequences []uint64) Log {
	if len(sequences) == 0 {
		return log
	}
	return vouched{log, sequences}
}

type vouched struct {
	Log
	sequences []uint64
}

// BadEntryError names the first sequence at which a log is damaged.
type BadEntryError struct {
	Sequence uint64
	Err      error
}

// Error implements error.
func (e *BadEntryError) Error() string {
	return fmt.Sprintf("log entry %d: %v", e.Sequence, e.Err)
}

// Unwrap returns what is wrong with the entry.
func (e *BadEntryError) Unwrap() error { return e.Err }
