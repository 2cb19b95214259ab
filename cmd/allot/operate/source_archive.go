package operate

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// LogFile is the log in a file that "allot export" wrote, read only. Every
// Read reads and checks the whole file.
type LogFile struct {
	readOnly

	path    string
	Trailer logfile.Trailer
}

// OpenLogFile checks the whole file. Its log must begin at sequence 1.
func OpenLogFile(path string) (*LogFile, error) {
	l := &LogFile{path: path}
	var err error
	l.Trailer, err = l.scan(discardCommit)
	return l, err
}

// kept returns the checkpoints in the file.
func (l *LogFile) kept(context.Context, uint64) ([]proof.Kept, error) {
	list := make([]proof.Kept, len(l.Trailer.Checkpoints))
	for i, signed := range l.Trailer.Checkpoints {
		list[i] = proof.Kept{Path: fmt.Sprintf("%d of %s", i, l.path), Signed: signed}
	}
	return list, nil
}

// archiveHeader reads the header of an archive.
func archiveHeader(path string) (header logfile.Header, err error) {
	_, err = readArchive(path, func(h logfile.Header) error { header = h; return errEnough }, discardCommit)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return header, err
}

// readArchive is logfile.Read for a named file.
func readArchive(
	path string, begin func(logfile.Header) error, yield func(ledger.Entry) error,
) (logfile.Trailer, error) {
	f, err := os.Open(path)
	if err != nil {
		return logfile.Trailer{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return logfile.Read(f, begin, yield)
}

func (l *LogFile) scan(yield func(ledger.Entry) error) (logfile.Trailer, error) {
	trailer, err := readArchive(l.path, func(h logfile.Header) error {
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

// Last implements ledger.Log.
func (l *LogFile) Last(context.Context) (uint64, error) { return l.Trailer.Sequence, nil }

// Read implements ledger.Log.
func (l *LogFile) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if to > l.Trailer.Sequence {
		return fmt.Errorf("%w: %s ends at sequence %d", ledger.ErrLogBehind, l.path, l.Trailer.Sequence)
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
