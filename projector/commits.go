package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/allot-project/allot/projector/store"
)

// Not every sequence has a commit: an entry of the log that is none of the ledger's,
// as a stranger's or one that came too late, is skipped, and leaves a gap. Whether a
// commit that is not there has been lost is told by its neighbours: each names the
// number of records of the log with it, and has its own.

// span is a commit, and how many records the log had before and with it.
type span struct {
	sequence     uint64
	before, with int64
}

// readSpan reads the commit that a cursor stands at.
func readSpan(it *store.Iterator) (s span, err error) {
	s.sequence = binary.BigEndian.Uint64(it.Key()[1:])
	f := fields{data: it.Value()}
	_, _, s.with = f.commitPoint(s.sequence)
	s.before = s.with - int64(f.count())
	f.data = nil // the rest
	return s, f.end("commit")
}

// spanBefore moves a cursor over commits back from where it stands, to the commit before.
// The zero span is the begin of the log.
func spanBefore(it *store.Iterator) (span, error) {
	if !it.Prev() {
		return span{}, nil
	}
	return readSpan(it)
}

// follows reports whether nothing is missing between a commit and the next one. The
// zero span is the begin of the log.
func (s span) follows(before span) bool { return s.before == before.with }

// lastCommit returns the last commit at or before a sequence, which may be at most the
// newest one's; 0: the log has none there.
func (m *models) lastCommit(sequence uint64) (last uint64, err error) {
	key := commitKey(sequence)
	if found, err := m.Get(key, func([]byte) error { return nil }); err != nil || found {
		return sequence, err
	}
	it, err := m.Iterate([]byte{tableCommit}, []byte{tableCommit + 1})
	if err != nil {
		return 0, err
	}
	missing := func() error { return fmt.Errorf("%w: there is no commit %d", ErrDamaged, sequence) }
	if !it.SeekGE(key) {
		return 0, it.Finish(missing())
	}
	next, err := readSpan(it)
	var before span
	if err == nil {
		before, err = spanBefore(it)
	}
	if err == nil && !next.follows(before) {
		err = missing()
	}
	return before.sequence, it.Finish(err)
}
