package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// three are three servers of one log.
type three struct {
	t       *testing.T
	dirs    [3]string
	servers [3]*embedded.Server
}

func startThree(t *testing.T) *three {
	t.Helper()
	s := &three{t: t}
	var members []string
	for range s.dirs {
		members = append(members, ledgertest.FreeAddress(t))
	}
	for i := range s.dirs {
		var err error
		s.dirs[i] = t.TempDir()
		s.servers[i], err = embedded.Start(t.Context(), embedded.Config{
			StoreDir: s.dirs[i],
			Cluster: &embedded.Cluster{
				Member: fmt.Sprint(i), Listen: members[i], Members: members, Secret: "a secret of sixteen bytes and more",
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.servers[i].Shutdown)
	}
	return s
}

// open opens the log on one server, or makes it.
func (s *three) open(i int) *jetstream.Log {
	s.t.Helper()
	nc, err := s.servers[i].Connect()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		log, err := jetstream.Open(s.t.Context(), nc, jetstream.Config{
			Replicas: 3, MayCreate: true, AckTimeout: 2 * time.Second, Patience: 2 * time.Second,
		})
		if err == nil {
			return log
		}
		if time.Since(began) > time.Minute {
			s.t.Fatal(err)
		}
	}
}

// history is a chain of commits.
type history struct {
	t    *testing.T
	head ledger.Head
}

// next returns the next commit.
func (h *history) next(events ...ledger.Event) []byte {
	h.t.Helper()
	b := ledger.NewCommitBuilder()
	b.BeginAt(h.head.Sequence+1, h.head.Digest)
	record := ledger.Record{CommandID: ledger.UUID{byte(h.head.Sequence)}, Command: "Any", Actor: "a", Time: 1, Events: events}
	if _, _, err := b.Add(record, 1<<20); err != nil {
		h.t.Fatal(err)
	}
	commit, encoded, err := b.Seal()
	if err != nil {
		h.t.Fatal(err)
	}
	h.head = commit.Head()
	return encoded
}

func plain(n int) ledger.Event { return ledger.TraitCreated{Name: fmt.Sprintf("CUSTOM_%d", n)} }

// add appends the next commit.
func (h *history) add(log *jetstream.Log, events ...ledger.Event) {
	h.t.Helper()
	encoded := h.next(events...)
	if err := appendTo(log, h.head.Sequence, encoded); err != nil {
		h.t.Fatal(err)
	}
}

func appendTo(log *jetstream.Log, sequence uint64, encoded []byte) error {
	result := make(chan error, 1)
	log.Append(sequence, encoded, func(err error) { result <- err })
	return <-result
}

// goOn makes the next stream and has the log go on there.
func goOn(t *testing.T, log *jetstream.Log, h *history) {
	t.Helper()
	next, err := log.Prepare(t.Context(), h.head.Sequence+1)
	if err != nil {
		t.Fatal(err)
	}
	h.add(log, ledger.LogContinued{Of: next.Of, Stream: next.Stream})
}

func sequences(read func(func(ledger.Entry) error) error) (list []uint64, err error) {
	err = read(func(e ledger.Entry) error {
		list = append(list, e.Sequence)
		return nil
	})
	return list, err
}

// TestContinued: the log of several servers goes on in the stream that a commit names,
// for all readers and writers, and in no other one. Nobody can append after that commit
// to the stream before.
func TestContinued(t *testing.T) {
	s := startThree(t)
	leads, stale, follows := s.open(0), s.open(1), s.open(2)
	h := &history{t: t}
	for n := range 3 {
		h.add(leads, plain(n))
	}
	if last, err := stale.Last(t.Context()); last != 3 || err != nil {
		t.Fatal(last, err)
	}
	deposed, err := stale.Prepare(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	far, err := stale.Prepare(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	goOn(t, leads, h)
	for n := range 2 {
		h.add(leads, plain(n+5))
	}
	// One that does not know what commit 4 says.
	if err := appendTo(stale, 4, []byte("another")); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("in place of the commit that leads on: %v", err)
	}
	if err := appendTo(stale, 5, []byte("another")); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("after a commit that nobody has looked at: %v", err)
	}
	if last, err := stale.Last(t.Context()); last != 6 || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
	want := []uint64{1, 2, 3, 4, 5, 6}
	for name, read := range map[string]func(func(ledger.Entry) error) error{
		"read":                                  func(y func(ledger.Entry) error) error { return stale.Read(t.Context(), 1, 6, y) },
		"read, by one that knows of one stream": func(y func(ledger.Entry) error) error { return s.open(2).Read(t.Context(), 1, 6, y) },
	} {
		if got, err := sequences(read); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// One that has folded commit 4 as it was announced, and commit 5, and never read them.
	var got []uint64
	for began := time.Now(); len(got) == 0 && time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		got, err = sequences(func(y func(ledger.Entry) error) error { return follows.Tail(t.Context(), 6, y) })
	}
	if !slices.Equal(got, []uint64{6}) || err != nil {
		t.Errorf("a follower from 6 on: %v, %v", got, err)
	}
	// What says where another log went on says nothing here.
	for range 2 {
		h.add(leads, ledger.LogContinued{Of: "other", Stream: far.Stream})
	}
	deleted, err := stale.Tidy(t.Context())
	if !slices.Equal(deleted, []string{deposed.Stream}) || err != nil {
		t.Errorf("of no use are %q, %v; and not %s, where the log may still go on", deleted, err, far.Stream)
	}
	if leads.Continued(deposed) || leads.Continued(far) {
		t.Error("the log goes on where it does not")
	}
	if list := leads.Sealed(); !slices.Equal(list, []uint64{4}) {
		t.Errorf("streams end at %v", list)
	}
	if err := stale.Drop(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	// A reader that nobody has told may first find that the stream says nothing.
	for began := time.Now(); time.Since(began) < time.Minute; {
		_, err = sequences(func(y func(ledger.Entry) error) error { return leads.Read(t.Context(), 1, 6, y) })
		if !errors.Is(err, ledger.ErrUnavailable) {
			break
		}
	}
	if !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("what has left: %v", err)
	}
	if first := s.open(0).First(); first != 5 {
		t.Errorf("the log begins with %d", first)
	}
}

// TestReplicaStreams: the streams of a replica may each end early, because the others
// have the rest, also in what a power cut leaves of a write. A single server's may not.
func TestReplicaStreams(t *testing.T) {
	s := startThree(t)
	log := s.open(0)
	h := &history{t: t}
	for n := range 12 {
		if n%4 == 3 {
			goOn(t, log, h)
			continue
		}
		h.add(log, plain(n))
	}
	h.add(log, plain(13))
	if _, err := log.Prepare(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	names := log.Streams()
	time.Sleep(time.Second) // followers store it a moment later
	for _, one := range s.servers {
		one.Shutdown()
	}
	check := func(dir string, replica bool) (*blocks.Report, error) {
		return embedded.Files(dir).Check(context.Background(), blocks.CheckOptions{Replica: replica})
	}
	block := func(dir string, stream int) string {
		list, err := filepath.Glob(filepath.Join(embedded.Files(dir).Named(names[stream]), "msgs", "*.blk"))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	for _, dir := range s.dirs {
		if report, err := check(dir, false); err != nil || report.Last != h.head {
			t.Fatalf("all of it: %+v, %v", report, err)
		}
	}
	for name, c := range map[string]struct {
		change        func([]byte) []byte
		good, written bool
	}{
		"ends early":          {func(b []byte) []byte { return b[:len(b)/2] }, true, false},
		"ends in zeros":       {func(b []byte) []byte { return append(b[:len(b)/2], make([]byte, len(b)-len(b)/2)...) }, true, false},
		"ends in other bytes": {func(b []byte) []byte { return append(b, bytes.Repeat([]byte{7}, 100)...) }, true, true},
		"has a flipped bit":   {func(b []byte) []byte { b[len(b)/3] ^= 1; return b }, false, false},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(s.dirs[0])); err != nil {
			t.Fatal(err)
		}
		path := block(dir, 1)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, c.change(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		report, err := check(dir, true)
		if (err == nil) != c.good {
			t.Errorf("a stream %s: %v", name, err)
		}
		if _, err := check(dir, false); err == nil {
			t.Errorf("a stream %s, of a single server, is good", name)
		}
		if !c.good {
			continue
		}
		if report.Last.Sequence != 13 {
			t.Errorf("a stream %s: the log ends at %d", name, report.Last.Sequence)
		}
		if err := report.EarlierUnwritten(); (err != nil) != c.written {
			t.Errorf("a stream %s: %v", name, err)
		}
		if err := embedded.Files(dir).Settle(report); err != nil {
			t.Errorf("a stream %s: %v", name, err)
		}
	}
}
