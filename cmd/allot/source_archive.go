package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/proof"
)

// archiveLog is the log in a file that "allot export" wrote, read only. Every
// Read reads and checks the whole file.
type archiveLog struct {
	path    string
	trailer archive.Trailer
	last    uint64
}

// openArchive checks the whole file. Its log must begin at sequence 1.
func openArchive(path string) (*archiveLog, error) {
	l := &archiveLog{path: path}
	var err error
	l.trailer, err = l.scan(discardCommit)
	l.last = l.trailer.Sequence
	return l, err
}

// kept returns the checkpoints in the file.
func (l *archiveLog) kept(context.Context, uint64) ([]proof.Kept, error) {
	list := make([]proof.Kept, len(l.trailer.Checkpoints))
	for i, signed := range l.trailer.Checkpoints {
		list[i] = proof.Kept{Path: fmt.Sprintf("%d of %s", i, l.path), Signed: signed}
	}
	return list, nil
}

// archiveHeader reads the header of an archive.
func archiveHeader(path string) (header archive.Header, err error) {
	_, err = readArchive(path, func(h archive.Header) error { header = h; return errEnough }, discardCommit)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return header, err
}

// readArchive is archive.Read for a named file.
func readArchive(
	path string, begin func(archive.Header) error, yield func(ledger.Entry) error,
) (archive.Trailer, error) {
	f, err := os.Open(path)
	if err != nil {
		return archive.Trailer{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return archive.Read(f, begin, yield)
}

func (l *archiveLog) scan(yield func(ledger.Entry) error) (archive.Trailer, error) {
	trailer, err := readArchive(l.path, func(h archive.Header) error {
		if h.First != 1 {
			return fmt.Errorf("it begins at sequence %d, but a log must begin at sequence 1", h.First)
		}
		return nil
	}, yield)
	if err != nil {
		return trailer, fmt.Errorf("%s: %w", l.path, err)
	}
	return trailer, nil
}

// Append implements ledger.Log.
func (l *archiveLog) Append(_ uint64, _ []byte, done func(error)) { done(errReadOnly) }

// MaxCommitBytes implements ledger.Log.
func (l *archiveLog) MaxCommitBytes() int { return embedded.MaxPayload }

// Last implements ledger.Log.
func (l *archiveLog) Last(context.Context) (uint64, error) { return l.last, nil }

// Read implements ledger.Log.
func (l *archiveLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if to > l.last {
		return fmt.Errorf("%w: %s ends at sequence %d", ledger.ErrLogBehind, l.path, l.last)
	}
	_, err := l.scan(func(e ledger.Entry) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.Sequence < from:
			return nil
		case e.Sequence > to:
			return errEnough
		}
		return yield(e)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a scan early.
var errEnough = errors.New("that is enough")
