package ledger

import (
	"context"
	"errors"
)

// What can be wrong with a log, grouped by who finds out.
var (
	// ErrChain: a commit does not follow the one before it. The log lost,
	// gained or swapped something.
	ErrChain = errors.New("ledger: the log's digest chain is broken")

	// ErrLogBehind: the log ends before a position that somebody has seen.
	ErrLogBehind = errors.New("ledger: the log is behind its high-water mark")

	// ErrLogGap: the log does not hold every sequence from 1 on: it has said
	// that it holds later ones than one that it does not hold. Silence is
	// ErrUnavailable.
	ErrLogGap = errors.New("ledger: the log has a gap")

	// ErrLogUnsafe: the log's configuration does not promise what Allot
	// promises (sync always, no limits, no deletion).
	ErrLogUnsafe = errors.New("ledger: the log's configuration is unsafe")
)

// How a log can be out of reach. Both pass, and say nothing about what it holds.
var (
	// ErrUnavailable: the log did not answer.
	ErrUnavailable = errors.New("ledger: the log is out of reach")

	// ErrTooManyReaders: others read the log already; it was not asked.
	ErrTooManyReaders = errors.New("ledger: too many readers of the log")
)

// How an append can fail.
var (
	// ErrConflict: the commit was not appended because another one has its
	// sequence.
	ErrConflict = errors.New("ledger: another writer appended first")

	// ErrUnknownFate: the commit may or may not have been appended. Only
	// reading the log tells.
	ErrUnknownFate = errors.New("ledger: the fate of the append is unknown")

	// ErrTooLarge: the commit is larger than the log takes. It was not
	// appended.
	ErrTooLarge = errors.New("ledger: the commit is too large")
)

// Entry is one stored commit, still encoded.
type Entry struct {
	Sequence uint64
	Data     []byte
}

// Log keeps encoded commits under contiguous sequences from 1 on; what else
// it may hold, see Chain. All
// appends are conditional, so any number of writers may try and none can fork
// history. Implementations are safe for concurrent use.
type Log interface {
	// Append starts to append a commit under exactly this sequence and calls
	// done once, from any goroutine, when its fate is clear. A nil error
	// promises that the commit is durable; otherwise the error wraps
	// ErrConflict, ErrTooLarge or, for everything else, ErrUnknownFate.
	// Several appends may be under way if each follows the one before; when
	// one fails, those after it fail too.
	Append(sequence uint64, encoded []byte, done func(error))

	// Last returns the last sequence, 0 for an empty log. It fails with
	// ErrLogGap if sequences are missing, and with ErrUnavailable, within the
	// context's time, if the log does not answer.
	Last(ctx context.Context) (uint64, error)

	// Read calls yield for the entries from..to in order. Entries must not
	// be kept after yield returns. A missing sequence is ErrLogGap, and one
	// beyond the end ErrLogBehind; a log that does not answer is
	// ErrUnavailable, within the context's time.
	Read(ctx context.Context, from, to uint64, yield func(Entry) error) error

	// MaxCommitBytes is the largest encoded commit that Append takes.
	MaxCommitBytes() int
}
