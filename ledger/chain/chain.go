// Package chain tells the commits of a ledger from foreign entries of its log. It is pure.
//
// A log may hold foreign entries, if another program could publish on its subject. All
// readers must agree on which entries are foreign, and no damaged commit may be taken for
// one. Chain alone applies this rule:
//
//   - An entry is a commit of the ledger if it decodes, names the sequence at
//     which it stands, and holds the digest of the commit before it.
//   - Any other entry is skipped if a later commit holds the digest of the commit
//     before that entry, because the writer skipped the entry, too. The commit
//     after a damaged commit holds the digest of the undamaged one, and so proves
//     the damage.
//   - At the end of the log, where no commit follows yet, an entry is skipped
//     only if nothing about it resembles the writer's commits (see looksForeign),
//     or if it is a late append (see isLate). An operator can cut off any other. A
//     reader that has seen a commit there knows its digest, and compares it first
//     (see writer.Restore).
//
// The writer appends its next commit after the entries that it skipped, and so
// leaves the proof.
package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// maxDoubted is the number of well-formed commits in a row that may follow a
// doubtful entry without belonging to its ledger. One more counts as damage.
const maxDoubted = 64

// Chain tells the commits of a ledger from foreign entries of its log. Feed it
// the log's entries in order.
type Chain struct {
	prev ledger.Head
	// before is the digest of the commit before prev, if known.
	before ledger.Digest
	known  bool
	// doubt is the first entry after prev that is no commit of the ledger; nil:
	// there is none. unlike reports whether all such entries look foreign.
	doubt   *BadEntryError
	unlike  bool
	doubted int // well-formed commits among the doubtful entries
	// linked is a copy of the entry of prev, if only its link was looked at.
	linked []byte
}

// New returns a Chain that continues after the commit prev.
func New(prev ledger.Head) *Chain { return &Chain{prev: prev} }

// Head returns the head of the last commit.
func (c *Chain) Head() ledger.Head { return c.prev }

// Next returns the commit in an entry, or nil if the entry seems to be none. Then
// a later commit, or End, decides whether the entry may be skipped or is damaged.
func (c *Chain) Next(entry ledger.Entry) (*ledger.Commit, error) {
	commit, err := ledger.DecodeCommit(entry.Data)
	if err == nil && commit.Sequence == entry.Sequence && commit.Prev == c.prev.Digest {
		c.follow(commit.Head(), commit.Prev, true)
		return commit, nil
	}
	if err != nil {
		return nil, c.doubtful(entry, err, false)
	}
	return nil, c.unlinked(entry, commit.Sequence, commit.Prev)
}

// NextLink is Next for callers that need not decode the contents of the commit. So an
// entry with a right link that cannot be decoded is a commit to them, until the next
// commit shows that it was skipped: it holds the digest of the one before.
func (c *Chain) NextLink(entry ledger.Entry) (isCommit bool, err error) {
	sequence, prev, err := ledger.CommitLink(entry.Data)
	if err == nil && sequence == entry.Sequence && (prev == c.prev.Digest || c.wasSkipped(prev)) {
		c.follow(ledger.Head{Sequence: sequence, Digest: ledger.DigestOf(entry.Data)}, prev, true)
		c.linked = append(c.linked, entry.Data...)
		return true, nil
	}
	if err != nil {
		return false, c.doubtful(entry, err, false)
	}
	return false, c.unlinked(entry, sequence, prev)
}

// NextRun is NextLink for a run of commits that are known to follow one another,
// the first of them after prev. If prev is not the last commit of the Chain,
// NextRun returns false and does nothing.
func (c *Chain) NextRun(prev ledger.Digest, last ledger.Head) bool {
	if prev != c.prev.Digest {
		return false
	}
	c.follow(last, ledger.Digest{}, false)
	return true
}

func (c *Chain) follow(head ledger.Head, before ledger.Digest, known bool) {
	c.prev, c.before, c.known, c.doubt, c.doubted, c.linked = head, before, known, nil, 0, c.linked[:0]
}

// wasSkipped reports whether a commit that holds the digest prev shows that the last
// one is none: it follows the one before, and the last one cannot be decoded.
func (c *Chain) wasSkipped(prev ledger.Digest) bool {
	if len(c.linked) == 0 || !c.known || prev != c.before {
		return false
	}
	_, err := ledger.DecodeCommit(c.linked)
	return err != nil
}

// isLate reports whether a well-formed commit was meant for the place before, which
// another commit has: both hold the digest of the same commit. A writer that hears
// nothing of an append sends it again, and relies on the log to take one of the two. If a
// log takes both in spite of the condition, it stays readable. A damaged commit of this
// place is not late, whatever place it names: it holds the digest of the commit before
// it. Nor is a copy of the commit before it, because a writer that sends again decides
// again, at another time.
func (c *Chain) isLate(entry ledger.Entry, sequence uint64, prev ledger.Digest) bool {
	if sequence != c.prev.Sequence || prev == c.prev.Digest {
		return false
	}
	return (!c.known || prev == c.before) && ledger.DigestOf(entry.Data) != c.prev.Digest
}

// unlinked notes an entry that is a well-formed commit, but does not follow the last
// one.
func (c *Chain) unlinked(entry ledger.Entry, sequence uint64, prev ledger.Digest) error {
	late := c.isLate(entry, sequence, prev)
	if !late {
		c.doubted++
	}
	return c.doubtful(entry, fmt.Errorf(
		"%w: it names the sequence %d and holds the digest %.16s of the commit before it, and that is %d with the digest %.16s",
		ledger.ErrChain, sequence, prev, c.prev.Sequence, c.prev.Digest,
	), late)
}

// doubtful notes an entry that seems to be no commit. err is the reason why.
func (c *Chain) doubtful(entry ledger.Entry, err error, late bool) error {
	if c.doubt == nil {
		c.doubt, c.unlike = &BadEntryError{Sequence: entry.Sequence, Err: err}, true
	}
	c.unlike = c.unlike && (late || looksForeign(entry.Data, c.prev.Digest))
	if c.doubted > maxDoubted {
		return c.doubt
	}
	return nil
}

// End returns an error if the log must not end here.
func (c *Chain) End() error {
	if c.doubt == nil || c.unlike {
		return nil
	}
	return c.doubt
}

// markReach is the number of bytes at the beginning of a commit that contain the
// digest of the commit before it.
const markReach = 64

// looksForeign reports whether nothing about an entry resembles the writer's
// commits: it does not begin like a commit of any version, it does not hold the
// digest of the commit before it near its beginning, and it is not what a disk
// leaves of a lost commit.
func looksForeign(data []byte, prev ledger.Digest) bool {
	const fields = 0x94 // msgpack's array of four
	if len(bytes.Trim(data, "\x00")) == 0 || data[0] == fields {
		return false
	}
	return !bytes.Contains(data[:min(len(data), markReach)], prev[:])
}

// Read reads the commits after prev up to the sequence to, decodes them,
// and checks that they chain, the first one to prev. It skips foreign entries,
// see the package.
func Read(ctx context.Context, log ledger.Log, prev ledger.Head, to uint64, yield func(*ledger.Commit) error) error {
	links := New(prev)
	err := log.Read(ctx, prev.Sequence+1, to, func(entry ledger.Entry) error {
		commit, err := links.Next(entry)
		if commit == nil || err != nil {
			return err
		}
		return yield(commit)
	})
	if err != nil {
		return err
	}
	return settle(ctx, log, links, to)
}

// settle decides about doubtful entries at the end of a range. If the log goes on
// after the range, the entries that follow decide.
func settle(ctx context.Context, log ledger.Log, links *Chain, to uint64) error {
	err := links.End()
	if err == nil {
		return nil
	}
	last, lastErr := log.Last(ctx)
	if lastErr != nil || last <= to {
		return err
	}
	readErr := log.Read(ctx, to+1, last, func(entry ledger.Entry) error {
		commit, err := links.Next(entry)
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
	return links.End()
}

var errSettled = errors.New("ledger: it is settled")

// HeadBefore finds the last commit before a sequence.
func HeadBefore(ctx context.Context, log ledger.Log, sequence uint64) (ledger.Head, error) {
	for at := sequence - 1; at > 0; at-- {
		var head ledger.Head
		err := log.Read(ctx, at, at, func(entry ledger.Entry) error {
			if commit, err := ledger.DecodeCommit(entry.Data); err == nil && commit.Sequence == at {
				head = commit.Head()
			}
			return nil // A damaged commit breaks the chain of the commits after it.
		})
		if err != nil || head.Sequence > 0 {
			return head, err
		}
	}
	return ledger.Head{}, nil
}

// BadEntryError names the first sequence at which a log is damaged.
type BadEntryError struct {
	Sequence uint64
	Err      error
}

func (e *BadEntryError) Error() string { return fmt.Sprintf("log entry %d: %v", e.Sequence, e.Err) }

// Unwrap returns the reason why the entry is bad.
func (e *BadEntryError) Unwrap() error { return e.Err }
