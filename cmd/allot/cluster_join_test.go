package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

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
	s.t.Helper()
	began := time.Now()
	if !ledgertest.Comes(longWait, func() bool {
		select {
		case <-s.exited:
			s.t.Fatalf("it has ended:\n%s", s.logs)
		default:
		}
		status, _ := s.standing("/readyz")
		return status == 200
	}) {
		s.t.Fatalf("it is not ready:\n%s", s.logs)
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
		r.list[victim].kill()
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
	for _, line := range regexp.MustCompile("(?m)^.*(have come|joining|copy).*$").FindAllString(r.list[victim].logs.String(), -1) {
		t.Log(line)
	}
	for i, s := range r.list {
		if i == victim {
			continue
		}
		for _, line := range regexp.MustCompile("(?m)^.*(copy for).*$").FindAllString(s.logs.String(), -1) {
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

// TestJoinOutside: on an external NATS, too, an empty replica of a long log gets State
// and read models from another one.
func TestJoinOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, data := filepath.Join(dir, "long.archive"), filepath.Join(dir, "data")
	writeLongLog(t, path, 200_000)
	allot(t, true, "import", path, "--data", data)
	ns := outside(t, filepath.Join(data, "log"), natsserver.RANDOM_PORT, true) // the stream of a single server
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := func(name string) *server {
		return launch(t, t.TempDir(), "--nats-url", ns.ClientURL(), "--cluster-name", name,
			"--cluster-http", freeAddress(t), "--cluster-secret-file", secret)
	}
	first := begin("a")
	first.waitReady()
	second := begin("b")
	second.waitReady()
	second.waitLog("State and read models have come") // and it has not replayed the log
	if one, other := first.must(200, "GET", "/audit/digest", ""), second.must(200, "GET", "/audit/digest", ""); one != other {
		t.Errorf("they differ: %s, %s", one, other)
	}
}

// sameDigest makes sure that all replicas have the same read models.
func (r *replicas) sameDigest() {
	r.t.Helper()
	digests := make([]string, len(r.list))
	ledgertest.WaitFor(r.t, "one digest", func() bool {
		for i, s := range r.list {
			digests[i] = s.must(200, "GET", "/audit/digest", "")
		}
		return digests[0] == digests[1] && digests[1] == digests[2]
	}, func() any { return digests })
}

// TestJoinInterrupted: a kill while a copy is on its way, of the replica that gets it,
// again and again, or of the one that gives it, does not keep the replica from joining
// with what the others have; nor do damaged read models.
func TestJoinInterrupted(t *testing.T) {
	if os.Getenv("ALLOT_FAULTS") != "all" {
		t.Skip("skipped: it takes minutes, and may meet the wedge of nats-server (docs/reliability.md); ALLOT_FAULTS=all runs it")
	}
	r := launchLong(t, 600_000) // a copy takes a second
	leader := r.leader()
	victim, giver := (leader+1)%3, (leader+2)%3
	joins := func() {
		t.Helper()
		r.begin(victim)
		r.list[victim].waitReady()
		if logs := r.list[victim].logs.String(); strings.Contains(logs, "the log is replayed, instead") {
			t.Fatalf("it has replayed the log:\n%s", logs)
		}
		r.waitCurrent()
		r.sameDigest()
		if _, err := os.Stat(filepath.Join(r.data(victim), "readmodel", "joining")); err == nil {
			t.Error("what the copy came together in is left")
		}
	}
	coming := func() { r.list[victim].waitAnswer("/readyz", "State and read models come from") }

	r.list[victim].kill()
	removeAll(t, r.data(victim))
	allot(t, true, "cluster", "rejoin", "--data", r.data(victim))
	for i := range 4 {
		r.begin(victim)
		coming()
		time.Sleep(time.Duration(i) * 300 * time.Millisecond)
		r.list[victim].kill()
	}
	joins()

	r.list[victim].kill()
	removeAll(t, r.data(victim))
	allot(t, true, "cluster", "rejoin", "--data", r.data(victim))
	r.begin(victim)
	coming()
	if out := r.list[leader].joiningStatus(); !strings.Contains(out, "joining (") {
		t.Errorf("allot cluster status does not show it:\n%s", out)
	}
	r.waitWhole(leader, victim) // with two servers that lack some of the log there is no majority
	r.list[giver].kill()
	r.list[victim].waitReady()
	r.list[victim].waitLog("did not come")
	r.list[victim].waitLog("State and read models have come") // those of the one that was left
	r.begin(giver)
	r.list[giver].waitReady()
	r.waitCurrent()
	r.sameDigest()

	r.list[victim].terminate()
	flipInReadModels(t, r.data(victim))
	joins()
	r.list[victim].waitLog("read models set aside")
	r.list[victim].waitLog("State and read models have come")
}

// waitWhole waits until a server says that another one has all of the log.
func (r *replicas) waitWhole(by, other int) {
	r.t.Helper()
	var told clusterStatus
	ledgertest.WaitFor(r.t, fmt.Sprintf("all of the log at %d", other+1), func() bool {
		told, _ = r.list[by].current() // others may lack something
		whole, current := false, false
		for _, m := range told.Members {
			whole = whole || m.Name == fmt.Sprint(other+1) && m.Whole
		}
		for _, p := range told.Stream.Others {
			current = current || p.Name == fmt.Sprint(other+1) && p.Current && p.Lag == 0
		}
		return whole && (current || told.Stream.Leader == fmt.Sprint(other+1))
	}, func() any { return told })
}

// flipInReadModels damages what says which files there are.
func flipInReadModels(t *testing.T, data string) {
	t.Helper()
	dir := filepath.Join(data, "readmodel", "pebble")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, entry := range entries { // an older one may be left
		if strings.HasPrefix(entry.Name(), "MANIFEST") {
			if err := os.WriteFile(filepath.Join(dir, entry.Name()), []byte("no manifest"), 0o600); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatalf("there is no manifest in %s", dir)
	}
}

// waitAnswer waits until what a path answers has some words.
func (s *server) waitAnswer(path, words string) {
	s.t.Helper()
	ledgertest.WaitFor(s.t, fmt.Sprintf("%s to say %q", path, words), func() bool {
		_, body, err := sendTo("GET", "http://"+s.http+path, "", nil)
		return err == nil && strings.Contains(body, words)
	}, func() any { return s.logs })
}

// joiningStatus is what allot cluster status prints.
func (s *server) joiningStatus() string {
	s.t.Helper()
	out, err := exec.Command(binary, "cluster", "status", "--url", "http://"+s.http).CombinedOutput()
	if err != nil {
		s.t.Errorf("%v: %s", err, out)
	}
	return string(out)
}
