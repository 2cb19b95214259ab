package main_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// consumers returns how many consumers the log's stream has.
func consumers(t *testing.T, ns *natsserver.Server) int {
	t.Helper()
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(context.Background(), "ALLOT")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Consumers
}

// TestReadersLeaveNothingBehind reads and follows the log far more often than its
// stream has room for consumers. Everything is answered, and the stream has no
// consumers in the end, even if the server is killed in the middle.
func TestReadersLeaveNothingBehind(t *testing.T) {
	const (
		reads    = 3000
		followed = 300
	)
	ns := outside(t, t.TempDir(), natsserver.RANDOM_PORT, false)
	s := launch(t, t.TempDir(), "--nats-url", ns.ClientURL())
	s.makeProvider(1_000_000)
	first := s.must(http.StatusOK, "GET", "/audit/records?limit=1", "")
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range reads / 4 {
				if status, answer, err := s.call("GET", "/audit/records?limit=1", "", ""); err != nil || status != http.StatusOK ||
					answer != first {
					t.Errorf("%d %s, %v", status, answer, err)
					return
				}
			}
		})
	}
	clients.Wait()
	s.followCommits(followed)
	if n := consumers(t, ns); n != 0 {
		t.Errorf("%d consumers were left behind", n)
	}
	var answers atomic.Int64
	for range 4 {
		clients.Go(func() {
			for ; ; answers.Add(1) {
				if _, _, err := s.call("GET", "/audit/records", "", ""); err != nil {
					return // killed
				}
			}
		})
	}
	ledgertest.WaitFor(t, "answers", func() bool { return answers.Load() >= 20 })
	s.kill()
	clients.Wait()
	if n := consumers(t, ns); n != 0 {
		t.Errorf("%d consumers were left behind by a server that was killed", n)
	}
}

// followCommits follows the log while commands come one after the other, and
// expects a line for each.
func (s *server) followCommits(commits int) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.http+"/audit/records?follow=true&from=4", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "admin")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	lines := bufio.NewScanner(resp.Body)
	for i := range commits {
		s.must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
		if !lines.Scan() {
			s.t.Fatalf("the follower was told of %d commits: %v", i, lines.Err())
		}
		if want := fmt.Sprintf(`{"sequence":%d,`, 4+i); len(lines.Text()) < len(want) || lines.Text()[:len(want)] != want {
			s.t.Fatalf("commit %d: %s", i, lines.Text())
		}
	}
}
