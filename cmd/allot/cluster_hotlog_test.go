package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// boundedReplicas are three servers whose log is bounded, and the archive.
type boundedReplicas struct {
	*replicas
	archive string
	flags   []string
	metrics [3]string
}

// launchBounded starts three servers whose log keeps some 20 commits.
func launchBounded(t *testing.T) *boundedReplicas {
	t.Helper()
	b := &boundedReplicas{replicas: prepareReplicas(t), archive: t.TempDir()}
	b.flags = []string{
		"--archive", "file://" + b.archive, "--archive-part-records", "10", "--archive-part-age", "1s", "--archive-cache", "1",
		"--snapshot-records", "5", "--hot-log-records", "20",
	}
	ran(t, "init", "--data", b.data(0))
	for i := range b.list {
		b.metrics[i] = freeAddress(t)
		b.again(i)
	}
	for i := range b.list {
		if !b.list[i].waitServing() {
			t.Fatalf("replica %d does not serve:\n%s", i+1, b.list[i].logs)
		}
	}
	b.leader()
	return b
}

// again starts one of the servers.
func (b *boundedReplicas) again(i int, more ...string) {
	b.t.Helper()
	b.begin(i, append(append([]string{"--metrics", b.metrics[i]}, b.flags...), more...)...)
}

// first is the first sequence that the log holds, as a replica knows.
func (b *boundedReplicas) first(i int) float64 {
	return readMetrics(b.t, b.metrics[i])["allot_hot_log_first_sequence"]
}

// leaves waits until what is before a sequence has left the log.
func (b *boundedReplicas) leaves(before float64) {
	b.t.Helper()
	waitFor(b.t, fmt.Sprintf("the log leaves up to %v", before), func() bool {
		for i, s := range b.list {
			if s != nil && b.first(i) < before {
				return false
			}
		}
		return true
	})
}

// holdsAll checks that every server has all history, and everything that was
// acknowledged, and after a stop that its files are good.
func (b *boundedReplicas) holdsAll(l *load) {
	b.t.Helper()
	for i, s := range b.list {
		l.holds(b.t, s)
		_, h := s.standing("/healthz")
		for from := uint64(1); from <= h.Sequence; from += 500 {
			body := s.must(200, "GET", fmt.Sprintf("/audit/records?from=%d&limit=500", from), "")
			if !strings.Contains(body, fmt.Sprintf(`"sequence":%d`, from)) {
				b.t.Errorf("replica %d has no record of commit %d: %.300s", i+1, from, body)
			}
		}
		if at := s.must(200, "GET", "/traits?at=10", ""); !strings.Contains(at, "traits") {
			b.t.Errorf("replica %d, as of commit 10: %.300s", i+1, at)
		}
	}
	for i, s := range b.list {
		s.terminate()
		allot(b.t, true, "verify", "--data", b.data(i), "--archive", "file://"+b.archive)
	}
	allot(b.t, true, "verify", "--archive", "file://"+b.archive)
}

// TestReplicasHotLog: what all archives have leaves the log of three servers while
// clients write through all of them. Any of them may be killed, and all be stopped:
// no write is lost, and all of history can be read at each of them.
func TestReplicasHotLog(t *testing.T) {
	b := launchBounded(t)
	l := b.load(0, 1, 2)
	b.leaves(100)
	l.end(t)
	follower := (b.leader() + 1) % 3
	b.lose(follower)
	l2 := b.load((follower+1)%3, (follower+2)%3)
	time.Sleep(3 * time.Second)
	l2.end(t)
	was := b.first((follower + 1) % 3)
	if now := b.first((follower + 2) % 3); now != was {
		t.Errorf("the log begins with %v and %v", was, now)
	}
	b.again(follower)
	if !b.list[follower].waitServing() {
		t.Fatal(b.list[follower].logs)
	}
	l3 := b.load(0, 1, 2)
	b.leaves(was + 100)
	l3.end(t)
	l.made = append(append(l.made, l2.made...), l3.made...)
	for i := range b.list {
		b.list[i].kill()
	}
	for i := range b.list {
		b.again(i)
	}
	for i := range b.list {
		if !b.list[i].waitServing() {
			t.Fatal(b.list[i].logs)
		}
	}
	b.leader()
	// Read models and snapshots come again from archives and log.
	b.list[0].terminate()
	for _, gone := range []string{"readmodel", "snapshots"} {
		if err := os.RemoveAll(filepath.Join(b.data(0), gone)); err != nil {
			t.Fatal(err)
		}
	}
	b.again(0, "--cluster-copy-rate", "0", "--archive-copy-records", "0")
	if !b.list[0].waitServing() {
		t.Fatal(b.list[0].logs)
	}
	b.leader()
	b.holdsAll(l)
}
