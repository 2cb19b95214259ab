package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logfile"
)

// longLog is a log of many records about few consumers: a small State, and many
// versions of everything in it. It is made anew each time it is read.
type longLog struct {
	ledger.Log
	id      ledger.UUID
	batches int
}

const (
	longProviders = 1000
	longConsumers = 20_000
	// longBatch is how many records share a commit.
	longBatch = 500
)

// Last implements ledger.Log.
func (l *longLog) Last(context.Context) (uint64, error) { return uint64(2 + l.batches), nil }

// Read implements ledger.Log, from the first commit on.
func (l *longLog) Read(_ context.Context, _, to uint64, yield func(ledger.Entry) error) error {
	state, builder, clock := ledger.NewState(), ledger.NewCommitBuilder(), time.Now().Add(-24*time.Hour).UnixNano()
	commit := func(group []commands.Command) error {
		builder.Begin(state.Head())
		state.Begin()
		for _, c := range group {
			clock += int64(time.Millisecond)
			events, rejection := c.Decide(state)
			if rejection != nil {
				return fmt.Errorf("%s", rejection)
			}
			r := ledger.Record{CommandID: commands.NewID(), Command: c.CommandName(), Time: clock, Actor: "test", Events: events}
			if _, fits, err := builder.Add(r, 1<<30); err != nil || !fits {
				return fmt.Errorf("%v, %w", fits, err)
			}
			if err := state.Apply(builder.Sequence(), &r); err != nil {
				return err
			}
		}
		sealed, encoded, err := builder.Seal()
		if err != nil {
			return err
		}
		state.Advance(sealed.Head())
		return yield(ledger.Entry{Sequence: sealed.Sequence, Data: encoded})
	}
	names, err := commands.NewAddStandardNames(l.id)
	if err != nil {
		return err
	}
	if err := commit([]commands.Command{names}); err != nil || to == 1 {
		return err
	}
	var providers, consumers []ledger.UUID
	var group []commands.Command
	for i := range longProviders {
		id := commands.NewID()
		providers = append(providers, id)
		group = append(group, &commands.CreateProvider{Provider: id, Name: fmt.Sprint("host-", i)}, &commands.ReplaceInventories{
			Provider: id, Inventories: []commands.Inventory{{Class: "VCPU", Total: 1 << 30}},
		})
	}
	if err := commit(group); err != nil {
		return err
	}
	for range longConsumers {
		consumers = append(consumers, commands.NewID())
	}
	for n, batch := 0, 0; batch < l.batches; batch++ {
		group = group[:0]
		for range longBatch {
			c := commandstest.Allocate(consumers[n%len(consumers)], providers[n%len(providers)], "VCPU", int64(1+n%7))
			c.Allocations[0].AnyGeneration = true
			group = append(group, c)
			n++
		}
		if err := commit(group); err != nil {
			return err
		}
	}
	return nil
}

// writeLongLog writes an archive of so many records.
func writeLongLog(t *testing.T, path string, records int) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	log := &longLog{id: commands.NewID(), batches: records / longBatch}
	last, err := log.Last(t.Context())
	if err == nil {
		_, err = logfile.Write(t.Context(), out, log, logfile.Extent{From: 1, To: last})
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// launchLong starts three replicas on a long log.
func launchLong(t *testing.T, records int, flags ...string) *replicas {
	t.Helper()
	r := prepareReplicas(t)
	path := filepath.Join(r.dir, "long.archive")
	began := time.Now()
	writeLongLog(t, path, records)
	allot(t, true, "init", "--data", r.data(0), "--from", path)
	t.Logf("%d records are made after %v", records, time.Since(began).Round(time.Second))
	for i := range r.list {
		r.begin(i, flags...)
	}
	for i := range r.list {
		r.list[i].waitReady()
	}
	r.leader()
	t.Logf("and served by three replicas after %v", time.Since(began).Round(time.Second))
	return r
}

// longWait is how long a replica of a long log may take to be ready.
const longWait = 20 * time.Minute

// waitReady waits until a server is ready.
func (s *server) waitReady() time.Duration {
	s.T.Helper()
	began := time.Now()
	if !ledgertest.Comes(longWait, func() bool {
		select {
		case <-s.Exited:
			s.T.Fatalf("it has ended:\n%s", s.Logs)
		default:
		}
		status, _ := s.standing("/readyz")
		return status == 200
	}) {
		s.T.Fatalf("it is not ready:\n%s", s.Logs)
	}
	return time.Since(began)
}

// TestJoin: a replica that has lost all of its disk gets State and read models
// from another one, while writes go on, and holds what the others hold. With
// ALLOT_JOIN_RECORDS=10000000 it is a measurement beside a replay of the log:
//
//	ALLOT_JOIN_RECORDS=10000000 go test ./cmd/allot -run 'TestJoin$' -v -timeout 60m
func TestJoin(t *testing.T) {
	t.Parallel()
	records, measured := 200_000, false
	if text := os.Getenv("ALLOT_JOIN_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		measured = true
	}
	r := launchLong(t, records)
	victim := (r.leader() + 1) % 3
	rejoin := func(flags ...string) time.Duration {
		r.list[victim].Kill()
		removeAll(t, r.data(victim))
		allot(t, true, "cluster", "rejoin", "--data", r.data(victim))
		l := r.load((victim+1)%3, (victim+2)%3)
		began := time.Now()
		r.begin(victim, flags...)
		r.list[victim].waitReady()
		ready := time.Since(began)
		l.end(t)
		r.waitCurrent()
		t.Logf("ready after %v; its stream is current after %v", ready.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
		l.holds(t, r.list[victim])
		return ready
	}
	joined := rejoin()
	r.list[victim].waitLog("State and read models have come") // and it has not replayed the log
	for _, line := range regexp.MustCompile("(?m)^.*(have come|joining|copy).*$").FindAllString(r.list[victim].Logs.String(), -1) {
		t.Log(line)
	}
	for i, s := range r.list {
		if i == victim {
			continue
		}
		for _, line := range regexp.MustCompile("(?m)^.*(copy for).*$").FindAllString(s.Logs.String(), -1) {
			t.Log(line)
		}
	}
	if _, err := os.Stat(filepath.Join(r.data(victim), "readmodel", "joining")); err == nil {
		t.Error("what the copy came together in is left")
	}
	r.sameDigest()
	if measured {
		replayed := rejoin("--cluster-http", "")
		t.Logf("JOIN | %d records | copy %v | replay %v | ratio %.1f", records, joined.Round(10*time.Millisecond),
			replayed.Round(10*time.Millisecond), replayed.Seconds()/joined.Seconds())
	}
}

// sameDigest makes sure that all replicas have the same read models.
func (r *replicas) sameDigest() {
	r.t.Helper()
	digests := make([]string, len(r.list))
	ledgertest.WaitFor(r.t, "one digest", func() bool {
		for i, s := range r.list {
			digests[i] = s.Must(200, "GET", "/audit/digest", "")
		}
		return digests[0] == digests[1] && digests[1] == digests[2]
	}, func() any { return digests })
}

// waitAnswer waits until what a path answers has some words.
func (s *server) waitAnswer(path, words string) {
	s.T.Helper()
	ledgertest.WaitFor(s.T, fmt.Sprintf("%s to say %q", path, words), func() bool {
		_, body, err := sendTo("GET", "http://"+s.HTTP+path, "", nil)
		return err == nil && strings.Contains(body, words)
	}, func() any { return s.Logs })
}
