package ledgertest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// Append appends an entry to a log, and waits for its fate.
func Append(log ledger.Log, sequence uint64, data []byte) error {
	fate := make(chan error, 1)
	log.Append(sequence, data, func(err error) { fate <- err })
	return <-fate
}

// InOrder takes entries from next on, each once and in order, with what they must hold.
func InOrder(next *uint64, holds func(ledger.Entry) bool) func(ledger.Entry) error {
	return func(e ledger.Entry) error {
		if e.Sequence != *next || !holds(e) {
			return fmt.Errorf("entry %d came as %d: %.100q", *next, e.Sequence, e.Data)
		}
		*next++
		return nil
	}
}

// Encoded is the stored form of a commit.
func Encoded(t testing.TB, c *ledger.Commit) []byte {
	t.Helper()
	encoded, err := ledger.EncodeCommit(c)
	OK(t, err)
	return encoded
}

// EncodedState is the stored form of a State.
func EncodedState(t testing.TB, s *ledger.State) []byte {
	t.Helper()
	var out bytes.Buffer
	OK(t, s.Encode(&out))
	return out.Bytes()
}

// AppendCommits appends commits to a log.
func AppendCommits(t testing.TB, log ledger.Log, commits []*ledger.Commit) {
	t.Helper()
	for _, c := range commits {
		OK(t, Append(log, c.Sequence, Encoded(t, c)))
	}
}
