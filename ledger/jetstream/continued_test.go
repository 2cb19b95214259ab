package jetstream_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/logtest"
)

// outsider opens a log in a NATS server, of which nobody else keeps a replica, as a
// server does that is not the only one to open it.
func outsider(t *testing.T, nc *nats.Conn) *jetstream.Log {
	t.Helper()
	return logtest.OpenLog(t, nc, jetstream.Config{MayCreate: true, Shared: true})
}

// add appends a commit after a head.
func add(t *testing.T, log *jetstream.Log, head ledger.Head, events ...ledger.Event) ledger.Head {
	t.Helper()
	b := ledger.NewCommitBuilder()
	b.BeginAt(head.Sequence+1, head.Digest)
	record := ledger.Record{CommandID: ledger.UUID{byte(head.Sequence)}, Command: "Any", Actor: "a", Time: 1, Events: events}
	if _, _, err := b.Add(record, 1<<20); err != nil {
		t.Fatal(err)
	}
	commit, encoded, err := b.Seal()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	log.Append(commit.Sequence, encoded, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return commit.Head()
}

// goOn has a log go on in another stream.
func goOn(t *testing.T, log *jetstream.Log, head ledger.Head) ledger.Head {
	t.Helper()
	next, err := log.Prepare(t.Context(), head.Sequence+1)
	if err != nil {
		t.Fatal(err)
	}
	return add(t, log, head, ledger.LogContinued{Of: next.Of, Stream: next.Stream})
}

func sequencesOf(t *testing.T, log *jetstream.Log, from, to uint64) (list []uint64) {
	t.Helper()
	err := log.Read(t.Context(), from, to, func(e ledger.Entry) error {
		list = append(list, e.Sequence)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return list
}

// TestContinuedAlone: a log of which there is one replica, and that others may open, goes
// on as that of several does: for all who open it, also for one that was not told, and
// never by a seal. Whoever has not looked at the commit that leads on appends nothing.
func TestContinuedAlone(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	log, other := outsider(t, nc), outsider(t, nc)
	var head ledger.Head
	for range 3 {
		head = add(t, log, head, ledger.TraitCreated{Name: "CUSTOM_X"})
	}
	if last, err := other.Last(t.Context()); last != 3 || err != nil {
		t.Fatal(last, err)
	}
	head = goOn(t, log, head)
	for range 2 {
		head = add(t, log, head, ledger.TraitCreated{Name: "CUSTOM_X"})
	}
	result := make(chan error, 1)
	other.Append(5, []byte("another"), func(err error) { result <- err })
	if err := <-result; !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("after a commit that nobody has looked at: %v", err)
	}
	want := []uint64{1, 2, 3, 4, 5, 6}
	for name, reader := range map[string]*jetstream.Log{
		"who was there": other, "who comes": outsider(t, nc), "who was not told": open(t, nc, false),
	} {
		if last, err := reader.Last(t.Context()); last != 6 || err != nil {
			t.Errorf("%s: the log ends at %d, %v", name, last, err)
		}
		if got := sequencesOf(t, reader, 1, 6); !slices.Equal(got, want) {
			t.Errorf("%s reads %v", name, got)
		}
		if ends := reader.Sealed(); !slices.Equal(ends, []uint64{4}) {
			t.Errorf("%s: streams end at %v", name, ends)
		}
	}
	if err := log.Drop(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	late := outsider(t, nc)
	if got := sequencesOf(t, late, 5, 6); late.First() != 5 || len(got) != 2 {
		t.Errorf("after the first stream has left: the log begins with %d, and has %v", late.First(), got)
	}
	add(t, late, head, ledger.TraitCreated{Name: "CUSTOM_X"})
}

// TestSealedStaysSealed: a log that a single server has sealed parts of is read by one
// that others may open, which does not go on in another stream, and deletes nothing.
func TestSealedStaysSealed(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	roll(t, rolling(t, nc), 4)
	log := outsider(t, nc)
	fill(t, log, 6)
	if got := sequencesOf(t, log, 1, 6); len(got) != 6 {
		t.Errorf("it reads %v", got)
	}
	if _, err := log.Prepare(t.Context(), 7); !errors.Is(err, jetstream.ErrSealedBefore) {
		t.Errorf("it goes on elsewhere: %v", err)
	}
	if deleted, err := log.Tidy(t.Context()); len(deleted) > 0 {
		t.Errorf("deleted %q, %v", deleted, err)
	}
	if got := sequencesOf(t, outsider(t, nc), 1, 6); len(got) != 6 {
		t.Errorf("then there are %v", got)
	}
}

// TestCreatedAtOnce: of several servers that begin a log at once one makes its stream.
func TestCreatedAtOnce(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := jetstream.Open(t.Context(), nc, jetstream.Config{MayCreate: true, Shared: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestOpenWhileStreamsLeave: whoever opens a log finds it while it goes on, and while
// streams leave it.
func TestOpenWhileStreamsLeave(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	log := outsider(t, nc)
	head := add(t, log, ledger.Head{}, ledger.TraitCreated{Name: "CUSTOM_X"})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := jetstream.Open(t.Context(), nc, jetstream.Config{Shared: true}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 40 {
		head = goOn(t, log, head)
		head = add(t, log, head, ledger.TraitCreated{Name: "CUSTOM_X"})
		if err := log.Drop(t.Context(), log.Sealed()[0]); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	all.Wait()
	if names := log.Streams(); len(names) != 1 || !strings.HasPrefix(names[0], "ALLOT-") {
		t.Errorf("the log is in %q", names)
	}
}
