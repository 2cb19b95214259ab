package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
)

// rolling opens a log that may be rolled.
func rolling(t *testing.T, nc *nats.Conn) *jetstream.Log {
	t.Helper()
	return logtest.OpenLog(t, nc, jetstream.Config{MayCreate: true, MayRoll: true})
}

// fill appends commits to a log, up to a sequence, and returns all that it holds
// then, with the head.
func fill(t *testing.T, log ledger.Log, to int) (entries [][]byte, head ledger.Head) {
	t.Helper()
	last, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ledgertest.Commits(t, to) {
		encoded, err := ledger.EncodeCommit(c)
		if err == nil && c.Sequence > last {
			done := make(chan error, 1)
			log.Append(c.Sequence, encoded, func(err error) { done <- err })
			err = <-done
		}
		if err != nil {
			t.Fatal(err)
		}
		entries, head = append(entries, encoded), c.Head()
	}
	return entries, head
}

// roll fills a log up to a sequence, and rolls it there.
func roll(t *testing.T, log *jetstream.Log, to int) [][]byte {
	t.Helper()
	entries, head := fill(t, log, to)
	if err := log.Roll(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	return entries
}

// holds checks that a log has these entries, and no others.
func holds(t *testing.T, log ledger.Log, first uint64, entries [][]byte) {
	t.Helper()
	last, err := log.Last(t.Context())
	if err != nil || last != uint64(len(entries)) {
		t.Fatalf("the log ends at %d, %v; want %d", last, err, len(entries))
	}
	next := first
	err = log.Read(t.Context(), first, last, func(e ledger.Entry) error {
		if e.Sequence != next || string(e.Data) != string(entries[next-1]) {
			return fmt.Errorf("entry %d is not the one that was appended as %d", e.Sequence, next)
		}
		next++
		return nil
	})
	if err != nil || next != last+1 {
		t.Errorf("read up to %d of %d: %v", next-1, last, err)
	}
}

// TestRolledLog: a chain of streams is a log as any other, for the one that rolled
// it and for one that opens it.
func TestRolledLog(t *testing.T) {
	ns, nc := start(t, embedded.Config{})
	log := rolling(t, nc)
	var held [][]byte
	for _, at := range []int{1, 7, 20} {
		held = roll(t, log, at)
		holds(t, log, 1, held)
	}
	second, err := ns.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	other := open(t, second, false)
	if got := log.Sealed(); !slices.Equal(got, []uint64{1, 7, 20}) || !slices.Equal(other.Sealed(), got) {
		t.Errorf("sealed at %v and %v", got, other.Sealed())
	}
	logtest.RunAfter(t, log, other, held)
}

// TestRollUnderAppends: a log that is rolled again and again while commits are
// appended, several at a time, loses none, and gives each the answer that it
// would have had.
func TestRollUnderAppends(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	log := rolling(t, nc)
	var entries [][]byte
	var heads []ledger.Head
	for _, c := range ledgertest.Commits(t, 255) {
		encoded, err := ledger.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		entries, heads = append(entries, encoded), append(heads, c.Head())
	}
	const burst = 15
	for from := 0; from < len(entries); from += burst {
		var answers sync.WaitGroup
		rolled := make(chan error, 1)
		if from > 0 {
			go func() { rolled <- log.Roll(context.Background(), heads[from-1]) }()
		}
		for i := from; i < from+burst; i++ {
			if from > 0 && i == from+burst/2 {
				if err := <-rolled; err != nil && !errors.Is(err, jetstream.ErrNothingToSeal) {
					t.Errorf("roll: %v", err)
				}
			}
			answers.Add(1)
			log.Append(uint64(i+1), entries[i], func(err error) {
				defer answers.Done()
				if err != nil {
					t.Errorf("append %d: %v", i+1, err)
				}
			})
			runtime.Gosched()
		}
		answers.Wait()
	}
	if len(log.Sealed()) < 5 {
		t.Errorf("only %v are sealed", log.Sealed())
	}
	holds(t, log, 1, entries)
}

// step is a place at which the process that rolls or drops ends.
type step struct {
	name string
	do   func(t *testing.T, log *jetstream.Log, api js.JetStream)
}

// TestCrashWhileRolling: wherever the process ends, whoever opens the log next
// finds all that was not dropped, and goes on. The streams alone say what is left
// to do.
func TestCrashWhileRolling(t *testing.T) {
	seal := func(t *testing.T, log *jetstream.Log, api js.JetStream) {
		_, head := fill(t, log, 20)
		stream, err := api.Stream(t.Context(), "ALLOT-00000000000000000011")
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.Sealed, cfg.Subjects = true, []string{"allot.sealed." + cfg.Name}
		cfg.Metadata["allot.end"] = fmt.Sprintf("%d %x", head.Sequence, head.Digest[:])
		if _, err := api.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range []step{
		{"before it was sealed", func(t *testing.T, log *jetstream.Log, _ js.JetStream) { fill(t, log, 20) }},
		{"after it was sealed", seal},
		{"after the next one was made", func(t *testing.T, log *jetstream.Log, _ js.JetStream) { roll(t, log, 20) }},
		{"after the next one was written to", func(t *testing.T, log *jetstream.Log, _ js.JetStream) {
			roll(t, log, 20)
			fill(t, log, 22)
		}},
		{"after the oldest was dropped", func(t *testing.T, log *jetstream.Log, _ js.JetStream) {
			roll(t, log, 20)
			if err := log.Drop(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}},
		{"sealed, and the oldest dropped", func(t *testing.T, log *jetstream.Log, api js.JetStream) {
			seal(t, log, api)
			if err := log.Drop(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			dir := t.TempDir()
			_, nc := logtest.StartNATS(t, embedded.Config{StoreDir: filepath.Join(dir, "log")})
			log := rolling(t, nc)
			roll(t, log, 10)
			api, err := js.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			one.do(t, log, api)
			first := log.First()
			// What a process that is killed leaves is what is in its files.
			_, again := logtest.StartNATS(t, embedded.Config{StoreDir: copied(t, filepath.Join(dir, "log"))})
			next := rolling(t, again)
			if next.First() != first {
				t.Errorf("it begins with %d, and before with %d", next.First(), first)
			}
			entries, _ := fill(t, next, 25)
			holds(t, next, first, entries)
			roll(t, next, 30)
			entries, _ = fill(t, next, 33)
			holds(t, next, first, entries)
		})
	}
}

// copied returns a copy of a store, in which something may be deleted meanwhile.
func copied(t *testing.T, dir string) string {
	t.Helper()
	for {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(dir))
		if err == nil {
			return to
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestSealedIsMadeOnceOnly: a log whose last stream is sealed is no new ledger,
// and who may not make the next stream is told so. One who has it open finds it.
func TestSealedIsMadeOnceOnly(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	log := rolling(t, nc)
	reader := logtest.OpenLog(t, nc, jetstream.Config{})
	held := roll(t, log, 9)
	holds(t, reader, 1, held)
	held = roll(t, log, 12)
	if err := log.Drop(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	if err := reader.Read(t.Context(), 1, 12, func(ledger.Entry) error { return nil }); !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("what was dropped is read: %v", err)
	}
	late := logtest.OpenLog(t, nc, jetstream.Config{MayCreate: true})
	if late.First() != 10 {
		t.Errorf("it begins with %d", late.First())
	}
	holds(t, late, 10, held)
}

// TestOnlySealedStreamsLeave: Drop deletes nothing but the oldest stream, and only
// if it is the one that the caller means, and sealed.
func TestOnlySealedStreamsLeave(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	log := rolling(t, nc)
	entries, head := fill(t, log, 5)
	refused := func(last uint64) {
		t.Helper()
		if err := log.Drop(t.Context(), last); !errors.Is(err, jetstream.ErrNotSealed) {
			t.Errorf("drop %d: %v", last, err)
		}
	}
	refused(0)
	refused(5)
	err := log.Roll(t.Context(), ledger.Head{Sequence: 6, Digest: head.Digest})
	if !errors.Is(err, jetstream.ErrNothingToSeal) {
		t.Errorf("sealed after a commit that it does not have: %v", err)
	}
	if err := log.Roll(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	if err := log.Roll(t.Context(), head); !errors.Is(err, jetstream.ErrNothingToSeal) {
		t.Errorf("an empty stream was sealed: %v", err)
	}
	refused(4)
	holds(t, log, 1, entries)
	entries = roll(t, log, 8)
	refused(8)
	if err := log.Drop(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	refused(5)
	holds(t, log, 6, entries)
	if err := log.Read(t.Context(), 5, 8, func(ledger.Entry) error { return nil }); !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("what has left: %v", err)
	}
}
