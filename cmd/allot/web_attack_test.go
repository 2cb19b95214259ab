package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// webAttacks are attacks over HTTP/1.1. The attacker's address is another one than
// the well-behaved client's.
var webAttacks = []attack{
	{name: "HTTP connections that say nothing", do: webs("", "", 2000)},
	{name: "HTTP headers that do not end",
		do: webs(aRequest[:len(aRequest)-2]+"A: "+strings.Repeat("x", 60<<10), "", 1000)},
	{name: "HTTP bodies that do not come",
		do: webs(posts(adminToken, 60<<10)+`{"name":"`+strings.Repeat("x", 50<<10), "", 1000)},
	{name: "HTTP answers that are not taken", do: webs(strings.Repeat(aRequest, 8), "", 1000)},
	{name: "HTTP requests without end", do: webs("", aRequest, 64)},
}

// webs returns an attack by connections that each send the beginning and then wait;
// or, if there is more, send that again and again, each time when it was answered.
// They come back when they are cut off.
func webs(begins, more string, many int) func(*testing.T, *guarded, <-chan struct{}) {
	return func(_ *testing.T, g *guarded, stop <-chan struct{}) {
		var all sync.WaitGroup
		for range many {
			all.Go(func() { until(stop, func() { web(g.nats, begins, more, stop) }) })
		}
		all.Wait()
	}
}

func web(address, begins, more string, stop <-chan struct{}) {
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).Dial("tcp", address)
	if err != nil {
		time.Sleep(10 * time.Millisecond) // it was refused, and tries again
		return
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
		case <-done:
		}
		_ = conn.Close() // which ends a read or write, too
	}()
	if _, err := io.WriteString(conn, begins); err != nil {
		return
	}
	for answers := bufio.NewReader(conn); more != ""; {
		if _, err := io.WriteString(conn, more); err != nil {
			return
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return
		}
	}
	for isThere(conn) == nil { // it reads nothing
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestWebAttacksAreBounded: whatever a client does over HTTP/1.1, the server's memory
// grows by a bounded amount, and the server answers another client all the while.
func TestWebAttacksAreBounded(t *testing.T) { areBounded(t, webAttacks, attack.measureWeb) }

// measureWeb attacks a new server beside a client that waits for its answers. A list
// of what it holds has more than a megabyte where answers are not to be taken.
func (a attack) measureWeb(t *testing.T) (lost []string) {
	t.Helper()
	s := launch(t, t.TempDir())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.5000s", s.logs)
		}
	})
	many := 50
	if strings.Contains(a.name, "not taken") {
		many = 1500
	}
	for n := range many {
		s.must(http.StatusOK, "POST", "/resource_providers", fmt.Sprintf(`{"name":"p%d"}`, n))
	}
	defer s.kill()
	return a.compare(t, s, s.http, func(n int, _ bool) (list taken) {
		for range n {
			begun := time.Now()
			s.must(http.StatusOK, "GET", "/resource_providers?name=p1", "")
			list = append(list, time.Since(begun))
		}
		slices.Sort(list)
		return list
	})
}
