package archive

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/logfile"
)

// walk returns the parts that follow one another from after a sequence on, and
// the sequence at which a later one begins that nothing leads to; 0: there is
// none. Where parts overlap it takes the longest.
func (a *Archive) walk(after uint64) (names []Name, gap uint64) {
	for {
		begin, later := a.next(after + 1)
		if len(begin) == 0 {
			return names, later
		}
		names = append(names, begin[0])
		after = begin[0].Last.Sequence
	}
}

// position reads where the log stands after a part.
func (a *Archive) position(ctx context.Context, name Name, file *os.File) (Position, error) {
	var first error
	for _, same := range a.copies(name) {
		_, trailer, err := a.get(ctx, same, file)
		if err == nil {
			return Position{trailer.Head, trailer.Tree}, nil
		}
		if first == nil {
			first = err
		}
	}
	return Position{}, first
}

// copies returns a part and its copies.
func (a *Archive) copies(name Name) (list []Name) {
	begin, _ := a.next(name.First)
	for _, n := range begin {
		if n.Last == name.Last {
			list = append(list, n)
		}
	}
	return list
}

// part brings the part after a position into a file: the first good one of those
// that begin there.
func (a *Archive) part(
	ctx context.Context, from ledger.Head, file *os.File,
) (Name, logfile.Header, logfile.Trailer, error) {
	begin, later := a.next(from.Sequence + 1)
	if len(begin) == 0 {
		if later > 0 {
			return Name{}, logfile.Header{}, logfile.Trailer{}, fmt.Errorf("%w: %s has nothing of the sequences %d to %d",
				ErrMissing, a, from.Sequence+1, later-1)
		}
		return Name{}, logfile.Header{}, logfile.Trailer{}, errEnd
	}
	var first error
	for _, name := range begin {
		header, trailer, err := a.get(ctx, name, file)
		if err == nil && header.Prev != from.Digest {
			err = fmt.Errorf("%w: %s/%s follows a commit %d with the digest %.8s, and not %.8s", ErrFork, a, name,
				from.Sequence, header.Prev, from.Digest)
		}
		if err == nil {
			return name, header, trailer, nil
		}
		if first == nil {
			first = err
		}
	}
	return Name{}, logfile.Header{}, logfile.Trailer{}, first
}

var errEnd = errors.New("archives: the end")
