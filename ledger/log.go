package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Faults of a log, grouped by who finds them.
var (
	// ErrChain means that a commit does not follow the one before it: the log
	// lost, gained or swapped commits.
	ErrChain = errors.New("ledger: the log's digest chain is broken")

	// ErrLogBehind means that the log ends before a sequence that was seen in it.
	ErrLogBehind = errors.New("ledger: the log is behind its high-water mark")

	// ErrLogGap means that the log lacks a sequence although it says that it
	// holds later ones. Silence is ErrUnavailable instead.
	ErrLogGap = errors.New("ledger: the log has a gap")

	// ErrLogUnsafe means that the log's configuration does not keep Allot's
	// promises (sync always, no limits, no deletion).
	ErrLogUnsafe = errors.New("ledger: the log's configuration is unsafe")
)

// ErrUnavailable means that the log did not answer. It passes, and says nothing about the
// log's contents.
var ErrUnavailable = errors.New("ledger: the log is out of reach")

// Why an append fails.
var (
	// ErrConflict means that the commit was not appended, because another commit
	// has its sequence.
	ErrConflict = errors.New("ledger: another writer appended first")

	// ErrUnknownFate means that the commit may or may not have been appended.
	// Only reading the log tells.
	ErrUnknownFate = errors.New("ledger: the fate of the append is unknown")

	// ErrTooLarge means that the commit is larger than the log takes. It was not
	// appended.
	ErrTooLarge = errors.New("ledger: the commit is too large")
)

// Entry is one stored commit, still encoded.
type Entry struct {
	Sequence uint64
	Data     []byte
}

// Log keeps encoded commits under contiguous sequences from 1 on. It may hold
// foreign entries, too, see Chain. All appends are conditional, so any number of
// writers may try, but none can fork the history. Implementations are safe for
// concurrent use.
type Log interface {
	// Append starts to append a commit under exactly this sequence. It calls done
	// once, from any goroutine, when the outcome is known. A nil error promises
	// that the commit is durable. Otherwise the error wraps ErrConflict,
	// ErrTooLarge or, for everything else, ErrUnknownFate. Several appends may be
	// under way if each follows the one before. If one fails, those after it
	// fail, too.
	Append(sequence uint64, encoded []byte, done func(error))

	// Last returns the last sequence, or 0 for an empty log. It fails with
	// ErrLogGap if sequences are missing, and with ErrUnavailable if the log does
	// not answer within the context's time.
	Last(ctx context.Context) (uint64, error)

	// Read calls yield for the entries from..to in order. Entries must not be
	// kept after yield returns. A missing sequence is ErrLogGap, a sequence
	// beyond the end is ErrLogBehind, and a log that does not answer within the
	// context's time is ErrUnavailable.
	Read(ctx context.Context, from, to uint64, yield func(Entry) error) error

	// MaxCommitBytes returns the size of the largest encoded commit that Append
	// takes.
	MaxCommitBytes() int
}

// ReadCommit reads one commit from a log. It fails as Log.Read does, and with ErrCorrupt if the
// entry cannot be read.
func ReadCommit(ctx context.Context, log Log, sequence uint64) (commit *Commit, err error) {
	err = log.Read(ctx, sequence, sequence, func(e Entry) (err error) {
		if commit, err = DecodeCommit(e.Data); err != nil {
			err = fmt.Errorf("commit %d cannot be read: %w", sequence, err)
		}
		return err
	})
	return commit, err
}

// ReadRecord reads one record from a log. It fails as ReadCommit does, and with ErrCorrupt if
// the commit has no such record.
func ReadRecord(ctx context.Context, log Log, at Address) (*Record, error) {
	commit, err := ReadCommit(ctx, log, at.Sequence)
	if err != nil {
		return nil, err
	}
	return commit.Record(at)
}

// Record returns the record of a commit at an address in it, or an ErrCorrupt if there is none.
func (c *Commit) Record(at Address) (*Record, error) {
	if at.Index >= len(c.Records) {
		return nil, fmt.Errorf("record %s cannot be read: %w: commit %d has %d records", at, ErrCorrupt, at.Sequence, len(c.Records))
	}
	return &c.Records[at.Index], nil
}
