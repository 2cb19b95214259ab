// Package logtest holds the promises of ledger.Log, as tests that every
// implementation must pass.
package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Run checks an empty log, and a second handle on the same log, such as another
// writer would hold.
func Run(t *testing.T, log, other ledger.Log) {
	t.Helper()
	ctx := context.Background()
	s := &suite{T: t, log: log}
	s.wantLast(log, 0)
	if err := s.append(log, 2, "two"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("append of a sequence behind the next one: %v", err)
	}
	for i := uint64(1); i <= 3; i++ {
		if err := s.append(log, i, fmt.Sprint("entry ", i)); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
	if err := s.append(other, 3, "stale"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("append of a sequence that is taken: %v", err)
	}
	if err := s.append(other, 4, "entry 4"); err != nil {
		t.Errorf("append by another writer: %v", err)
	}
	s.wantLast(log, 4)
	s.inFlight()
	if err := s.append(log, 25, string(make([]byte, log.MaxCommitBytes()+1))); !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("append of too much: %v", err)
	}
	s.wantLast(other, 24)
	s.reads()
	stop := errors.New("enough")
	if err := log.Read(ctx, 1, 24, func(ledger.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the reader's error is lost: %v", err)
	}
	err := log.Read(ctx, 24, 25, ignore)
	if !errors.Is(err, ledger.ErrLogBehind) || errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("reading beyond the end: %v", err)
	}
}

// suite is a run of the tests.
type suite struct {
	*testing.T
	log ledger.Log
}

// reads reads ranges from the first entries to the end, and each one alone.
func (s *suite) reads() {
	s.Helper()
	const last = 24
	for from := uint64(1); from <= 2; from++ {
		for _, to := range []uint64{from, min(from+3, last), last} {
			next := from
			err := s.log.Read(context.Background(), from, to, func(e ledger.Entry) error {
				if want := fmt.Sprint("entry ", next); e.Sequence != next || string(e.Data) != want {
					return fmt.Errorf("entry %d is %.40q where %d is %q", e.Sequence, e.Data, next, want)
				}
				next++
				return nil
			})
			if err != nil || next != to+1 {
				s.Errorf("reading %d to %d came to %d: %v", from, to, next, err)
			}
		}
	}
}

func ignore(ledger.Entry) error { return nil }

// inFlight starts many appends without waiting, and then some that must all fail
// because the first of them does.
func (s *suite) inFlight() {
	s.Helper()
	results := make(chan error, 20)
	for i := uint64(5); i <= 24; i++ {
		s.log.Append(i, []byte(fmt.Sprint("entry ", i)), func(err error) { results <- err })
	}
	for range 20 {
		if err := <-results; err != nil {
			s.Errorf("append in flight: %v", err)
		}
	}
	for i := uint64(26); i <= 28; i++ {
		s.log.Append(i, []byte("never"), func(err error) { results <- err })
	}
	for range 3 {
		if err := <-results; !errors.Is(err, ledger.ErrConflict) {
			s.Errorf("append behind a failed one: %v", err)
		}
	}
}

func (s *suite) append(log ledger.Log, i uint64, data string) error {
	return ledgertest.Append(log, i, []byte(data))
}

func (s *suite) wantLast(log ledger.Log, want uint64) {
	s.Helper()
	if last, err := log.Last(context.Background()); err != nil || last != want {
		s.Errorf("last is %d, %v; want %d", last, err, want)
	}
}
