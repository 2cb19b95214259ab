// Package logtest holds the promises of ledger.Log, as tests that every
// implementation must pass.
package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// Run checks an empty log, and a second handle on the same log, such as another
// writer would hold.
func Run(t *testing.T, log, other ledger.Log) {
	ctx := context.Background()
	wantLast(t, log, 0)
	if err := appendOne(log, 2, "two"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("append of sequence 2 to an empty log: %v", err)
	}
	for i := 1; i <= 3; i++ {
		if err := appendOne(log, uint64(i), fmt.Sprint("entry ", i)); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
	if err := appendOne(other, 3, "stale"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("append of a sequence that is taken: %v", err)
	}
	if err := appendOne(other, 4, "entry 4"); err != nil {
		t.Errorf("append by another writer: %v", err)
	}
	wantLast(t, log, 4)
	inFlight(t, log)
	if err := appendOne(log, 25, string(make([]byte, log.MaxCommitBytes()+1))); !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("append of too much: %v", err)
	}
	wantLast(t, other, 24)
	var read int
	err := log.Read(ctx, 2, 24, func(e ledger.Entry) error {
		read++
		if want := fmt.Sprint("entry ", e.Sequence); e.Sequence != uint64(read+1) || !bytes.Equal(e.Data, []byte(want)) {
			return fmt.Errorf("entry %d is %q", e.Sequence, e.Data)
		}
		return nil
	})
	if err != nil || read != 23 {
		t.Errorf("read %d entries: %v", read, err)
	}
	stop := errors.New("enough")
	if err := log.Read(ctx, 1, 24, func(ledger.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the reader's error is lost: %v", err)
	}
	if err := log.Read(ctx, 24, 25, ignore); !errors.Is(err, ledger.ErrLogBehind) || errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("reading beyond the end: %v", err)
	}
}

func ignore(ledger.Entry) error { return nil }

// inFlight starts many appends without waiting, and then some that must all fail
// because the first of them does.
func inFlight(t *testing.T, log ledger.Log) {
	t.Helper()
	results := make(chan error, 20)
	for i := 5; i <= 24; i++ {
		log.Append(uint64(i), []byte(fmt.Sprint("entry ", i)), func(err error) { results <- err })
	}
	for range 20 {
		if err := <-results; err != nil {
			t.Errorf("append in flight: %v", err)
		}
	}
	for i := 26; i <= 28; i++ {
		log.Append(uint64(i), []byte("never"), func(err error) { results <- err })
	}
	for range 3 {
		if err := <-results; !errors.Is(err, ledger.ErrConflict) {
			t.Errorf("append behind a failed one: %v", err)
		}
	}
}

func appendOne(log ledger.Log, sequence uint64, data string) error {
	result := make(chan error, 1)
	log.Append(sequence, []byte(data), func(err error) { result <- err })
	return <-result
}

func wantLast(t *testing.T, log ledger.Log, want uint64) {
	t.Helper()
	if last, err := log.Last(context.Background()); err != nil || last != want {
		t.Errorf("last is %d, %v; want %d", last, err, want)
	}
}
