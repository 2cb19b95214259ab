package main_test

import (
	"bufio"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestClusterGaps measures, with ALLOT_FAULTS set, for how long no write is
// acknowledged, and no stale read answered, when something happens to one of
// three replicas, and how much of that is JetStream's part.
func TestClusterGaps(t *testing.T) {
	if os.Getenv("ALLOT_FAULTS") == "" {
		t.Skip("skipped: a measurement; ALLOT_FAULTS=all runs it")
	}
	const rounds = 10
	c := launchControlled(t, []string{"ALLOT_CONTROL=probe"})
	s := &scene{faultyCluster: c, random: rand.New(rand.NewSource(1))}
	for _, event := range []struct {
		name   string
		happen func() (hurt []int, end func())
	}{
		{"kill -9 of the leader", func() ([]int, func()) { return []int{s.leads}, s.kill(s.nodes[s.leads]) }},
		{"kill -9 of a follower", func() ([]int, func()) { n := s.follower(); return []int{n.i}, s.kill(n) }},
		{"another leader is asked for", func() ([]int, func()) {
			s.stepDown(s.nodes[0])
			return nil, func() {}
		}},
		{"SIGTERM of the leader", func() ([]int, func()) {
			n := s.nodes[s.leads]
			n.signal(syscall.SIGTERM)
			<-n.server().exited
			return []int{n.i}, func() { n.restart(s.random) }
		}},
	} {
		t.Run(event.name, func(t *testing.T) {
			var writes, reads, stream, bucket, added []time.Duration
			for range rounds {
				s.leads = c.leader()
				g := c.watchGap(s.leads, event.happen)
				writes, reads = append(writes, g.write), append(reads, g.read)
				if g.stream > 0 {
					stream, bucket = append(stream, g.stream), append(bucket, g.bucket)
					added = append(added, g.first-max(g.stream, g.bucket))
				}
				t.Logf("%+v", g)
				if err := c.ready(); err != nil {
					t.Fatal(err)
				}
			}
			for what, took := range map[string][]time.Duration{
				"no write acknowledged": writes, "no stale read answered": reads,
				"until the log's stream takes a publish": stream, "until the bucket's stream does": bucket,
				"Allot's first write after both": added,
			} {
				if len(took) > 0 {
					slices.Sort(took)
					t.Logf("GAP | %s: %s | %d | %d ms | %d ms |", event.name, what, len(took),
						took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds())
				}
			}
		})
	}
}

// gaps are the times that a client notices when something happens.
type gaps struct {
	write, read time.Duration // the longest time without an answer, through the replicas that nothing happens to
	stream      time.Duration // until the leader of the log's stream answered again
	bucket      time.Duration // until that of the bucket did
	first       time.Duration // until the first acknowledgement of a write that was sent later
}

// watchGap writes and reads through the replicas that nothing happens to.
func (c *faultyCluster) watchGap(leads int, happen func() ([]int, func())) (g gaps) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	var writes, reads [][3]int64 // when it began and ended, and through which replica
	for i, n := range c.nodes {
		for _, stale := range []bool{false, true} {
			all.Go(func() {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond):
					}
					began := time.Now().UnixNano()
					if n.touch(client, stale) {
						mu.Lock()
						if one := [3]int64{began, time.Now().UnixNano(), int64(i)}; stale {
							reads = append(reads, one)
						} else {
							writes = append(writes, one)
						}
						mu.Unlock()
					}
				}
			})
		}
	}
	ledgertest.WaitFor(c.t, "writes and reads", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(writes) > 100 && len(reads) > 100
	})
	at := time.Now().UnixNano()
	hurt, end := happen()
	ledgertest.WaitFor(c.t, "a write", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(writes) > 0 && writes[len(writes)-1][0] > at+int64(300*time.Millisecond)
	})
	close(stop)
	all.Wait()
	g.write, g.first = longest(writes, hurt, at)
	g.read, _ = longest(reads, hurt, at)
	if slices.Contains(hurt, leads) {
		g.stream, g.bucket = c.streamBack("log", hurt, at), c.streamBack("bucket", hurt, at)
	}
	end()
	return g
}

// touch writes a trait, or makes a stale read.
func (n *node) touch(client *http.Client, stale bool) bool {
	method, want, path, headers := http.MethodPut, http.StatusCreated, "/traits/CUSTOM_"+
		strings.ReplaceAll(strings.ToUpper(uuid.NewString()), "-", "_"), map[string]string(nil)
	if stale {
		method, want, path = http.MethodGet, http.StatusOK, "/resource_providers"
		headers = map[string]string{"Allot-Consistency": "stale"}
	}
	status, _, _, err := n.request(client, 30*time.Second, method, path, "", headers)
	return err == nil && status == want
}

// longest returns the longest time without an answer after a moment, and the time
// until the first answer to a later request.
func longest(answers [][3]int64, hurt []int, at int64) (gap, first time.Duration) {
	slices.SortFunc(answers, func(a, b [3]int64) int { return int(a[1] - b[1]) })
	last := at
	for _, a := range answers {
		if slices.Contains(hurt, int(a[2])) || a[1] < at {
			continue
		}
		gap = max(gap, time.Duration(a[1]-last))
		last = a[1]
		if a[0] >= at && first == 0 {
			first = time.Duration(a[1] - at)
		}
	}
	return gap, first
}

// streamBack returns when the first of the surviving replicas learned from a
// stream's leader that an append out of order is refused.
func (c *faultyCluster) streamBack(what string, hurt []int, at int64) (back time.Duration) {
	for i, n := range c.nodes {
		if slices.Contains(hurt, i) {
			continue
		}
		lines := bufio.NewScanner(strings.NewReader(n.server().logs.String()))
		for lines.Scan() {
			var sent, refused int64
			if _, err := fmt.Sscanf(lines.Text(), "PROBE "+what+" %d %d", &sent, &refused); err == nil && sent >= at {
				if took := time.Duration(refused - at); back == 0 || took < back {
					back = took
				}
				break
			}
		}
	}
	return back
}
