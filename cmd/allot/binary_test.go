package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// commandIDs reads the whole log and counts the command ids in it.
func (s *server) commandIDs() map[string]int {
	s.T.Helper()
	counts := make(map[string]int)
	for text := range strings.Lines(s.Must(http.StatusOK, "GET", "/audit/records", "")) {
		var line struct {
			CommandID string `json:"command_id"`
			Error     string `json:"error"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Error != "" {
			s.T.Fatalf("%s: %v", text, err)
		}
		counts[line.CommandID]++
	}
	return counts
}

const provider = "/resource_providers/" + anyProvider

func (s *server) makeProvider(vcpus int) {
	s.T.Helper()
	s.provide(anyProvider, "node", fmt.Sprintf(`"VCPU":{"total":%d}`, vcpus))
}

// provide makes a provider with inventories.
func (s *server) provide(id, name, inventories string) {
	s.T.Helper()
	s.Must(http.StatusOK, "POST", "/resource_providers", fmt.Sprintf(`{"name":%q,"uuid":%q}`, name, id))
	s.Must(http.StatusOK, "PUT", "/resource_providers/"+id+"/inventories",
		`{"resource_provider_generation":0,"inventories":{`+inventories+`}}`)
}

func allocation() string {
	return `{"allocations":{"11111111-1111-4111-8111-111111111111":{"resources":{"VCPU":1}}},` +
		`"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`
}

// TestKill9 kills the server under load, again and again. Every answered command
// must be in the log exactly once, every other one at most once, and usage must
// equal the allocations.
func TestKill9(t *testing.T) {
	t.Parallel()
	rounds, data, n := times(3, 50), t.TempDir(), newTally()
	s := launch(t, data)
	s.makeProvider(1_000_000)
	for round := range rounds {
		s.loadAndKill(n, 20+40*round, s.Kill)
		s = launch(t, data, "--pace-snapshot-records", "100")
		n.check(s)
	}
	tell(t, "kill -9 under load", rounds, n.outcome())
}

// loadAndKill allocates from several clients until so many more commands were answered, and
// the server is killed meanwhile.
func (s *server) loadAndKill(n *tally, more int, kill func()) {
	s.T.Helper()
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for s.allocate(n) == http.StatusNoContent {
			}
		})
	}
	until := n.carriedOut() + more
	ledgertest.WaitFor(s.T, "answers", func() bool { return n.carriedOut() >= until || s.T.Failed() })
	kill()
	clients.Wait()
}

// TestMalformedHTTP: requests that the HTTP library itself refuses get an error
// in Placement's format, too.
func TestMalformedHTTP(t *testing.T) {
	s := launch(t, t.TempDir())
	for request, want := range map[string]string{
		"POST /traits HTTP/1.1\r\nHost: x\r\nContent-Length: hi mom":                 "400 content-length header must be an integer",
		"POST /traits HTTP/1.1\r\nHost: x\r\nContent-Length: -1":                     "400 content-length header must be an integer",
		"POST /traits HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2": "400 the request is not well-formed",
		"GET / HTTP/1.1":                      "400 the request is not well-formed",
		"hello":                               "400 the request is not well-formed",
		"GET / HTTP/1.1\r\nHost: x\r\nX Y: 1": "400 the request is not well-formed",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 1<<20): "431 the headers have more than",
	} {
		conn, err := net.Dial("tcp", s.HTTP)
		must(t, err)
		go func() { _, _ = io.WriteString(conn, request+"\r\n\r\n") }() // the server may hang up before the end
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		var body struct {
			Errors [1]struct {
				Status int
				Detail string
			}
		}
		must(t, json.NewDecoder(answer.Body).Decode(&body))
		_, detail, _ := strings.Cut(body.Errors[0].Detail, "\n\n ")
		told := fmt.Sprint(body.Errors[0].Status, " ", detail)
		if answer.StatusCode != body.Errors[0].Status || !strings.HasPrefix(told, want) {
			t.Errorf("%.60q: %s %q, want %q", request, answer.Status, told, want)
		}
		_ = conn.Close()
	}
}
