package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
)

// What TestFloods measures, and what docs/security.md promises of it.
const (
	hostileClients   = 16
	hostileAddresses = 4
	floodLasts       = 20 * time.Second
	servedWithin     = 5 * time.Second // 99 of 100 requests of another client
	wellAfter        = 2 * time.Second
)

// hostileEnv has the addresses of HTTP and of NATS for the process that floods.
const hostileEnv = "ALLOT_HOSTILE"

// from is a client that calls from an address of this machine.
func from(address string, connections int) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: connections,
	}}
}

// flood is one way to ask for too much.
type flood struct {
	name string
	run  func(ctx context.Context, client int, http, nats string)
}

// overHTTP floods with requests over so many connections. The body of answers is left
// unread where keep says so.
func overHTTP(method, path, body string, connections int, keep bool) func(context.Context, int, string, string) {
	return func(ctx context.Context, n int, address, _ string) {
		client := from(fmt.Sprint("127.0.0.", 2+n%hostileAddresses), connections)
		var all sync.WaitGroup
		for range connections {
			all.Go(func() {
				for ctx.Err() == nil {
					r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
					if err != nil {
						return
					}
					r.Header.Set("X-Auth-Token", "admin")
					r.Header.Set("OpenStack-API-Version", "placement 1.39")
					r.Header.Set("Content-Type", "application/json")
					answer, err := client.Do(r)
					switch {
					case err != nil:
					case keep:
						<-ctx.Done()
						_ = answer.Body.Close()
					default:
						_, _ = io.Copy(io.Discard, answer.Body)
						_ = answer.Body.Close()
					}
				}
			})
		}
		all.Wait()
	}
}

// overNATS floods with requests, and waits for no answer.
func overNATS(subject, body string) func(context.Context, int, string, string) {
	return func(ctx context.Context, n int, _, address string) {
		for ctx.Err() == nil {
			nc, err := nats.Connect("nats://"+address, nats.UserInfo(fmt.Sprint("hostile", n), "correct horse"))
			if err != nil {
				continue
			}
			for ctx.Err() == nil && nc.IsConnected() {
				msg := &nats.Msg{Subject: subject, Reply: "_INBOX.x", Data: []byte(body), Header: nats.Header{}}
				msg.Header.Set("Allot-Command-Id", uuid.NewString())
				if err := nc.PublishMsg(msg); err != nil {
					break
				}
			}
			nc.Close()
		}
	}
}

var floods = []flood{
	{"writes that are refused", overHTTP("PUT", "/allocations/"+aConsumer, `{"allocations":{"`+aNode+
		`":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"X"}`, 64, false)},
	{"lists of all providers", overHTTP("GET", "/resource_providers", "", 64, false)},
	{"searches", overHTTP("GET", "/allocation_candidates?resources=VCPU:1", "", 64, false)},
	{"reads of the past", overHTTP("GET", "/allocation_candidates?resources=VCPU:1&at=3", "", 64, false)},
	{"answers that are not read", overHTTP("GET", "/resource_providers", "", 256, true)},
	{"bodies of a megabyte", overHTTP("POST", "/allocations", `{"x":["`+strings.Repeat("y", 1<<20)+`"]}`, 32, false)},
	{"commands over NATS", overNATS("allot.command.CreateTrait", `{"name":"CUSTOM_X"}`)},
	{"descriptions over NATS", overNATS("$SRV.INFO.allot", "")},
}

// TestHostile is the process that floods until its input ends.
func TestHostile(t *testing.T) {
	addresses := strings.Fields(os.Getenv(hostileEnv))
	if len(addresses) != 2 {
		t.Skip("skipped: a part of TestFloods")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range hostileClients {
		all.Go(func() { floods[n%len(floods)].run(ctx, n, addresses[0], addresses[1]) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	all.Wait()
}

// honest is how long requests of a client took, beside others.
type honest struct{ writes, reads, queries []time.Duration }

func (h *honest) row(phase string) string {
	row := "| " + phase
	for _, list := range [][]time.Duration{h.writes, h.reads, h.queries} {
		slices.Sort(list)
		row += fmt.Sprintf(" | %v, %v (%d)", list[len(list)/2].Round(100*time.Microsecond),
			list[len(list)*99/100].Round(100*time.Microsecond), len(list))
	}
	return row + " |"
}

// asksFor asks one request after the other for a while: a write and a read over HTTP, and
// a query over NATS.
func (s *server) asksFor(lasts time.Duration, nc *nats.Conn) *honest {
	h, client := &honest{}, from("127.0.0.1", 4)
	timed := func(list *[]time.Duration, do func() error) {
		begun := time.Now()
		if err := do(); err != nil {
			s.T.Errorf("after %v: %v", time.Since(begun), err)
		}
		*list = append(*list, time.Since(begun))
	}
	ask := func(method, path, body string) error {
		r, err := http.NewRequestWithContext(s.T.Context(), method, "http://"+s.HTTP+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set("OpenStack-API-Version", "placement 1.39")
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }() // it was read
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode >= 300 {
			return fmt.Errorf("%s %s: %d %.200s, %w", method, path, answer.StatusCode, text, err)
		}
		return nil
	}
	for begun := time.Now(); time.Since(begun) < lasts; {
		name := "/traits/CUSTOM_" + strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-", "_"))
		timed(&h.writes, func() error { return ask("PUT", name, "") })
		timed(&h.reads, func() error { return ask("GET", name, "") })
		timed(&h.queries, func() error {
			_, err := nc.Request("allot.query.Usages", []byte(`{"project":"p"}`), time.Minute)
			return err
		})
	}
	return h
}

// TestFloods measures how others are served beside hostile clients that have logged in,
// and soon after: make floods.
func TestFloods(t *testing.T) {
	if os.Getenv("ALLOT_FLOODS") == "" {
		t.Skip("skipped: make floods runs it")
	}
	users, hash := "users:\n  - {name: honest, password: %[1]q, role: submitter}\n", hashed(t, "correct horse")
	for n := range hostileClients {
		users += fmt.Sprintf("  - {name: hostile%d, password: %%[1]q, role: operator}\n", n)
	}
	file := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, users, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address, "--nats-users", file)
	admin := map[string]string{"X-Auth-Token": "admin"}
	for n := range 1000 {
		s.send("POST", "/resource_providers", fmt.Sprintf(`{"name":"host-%d"}`, n), admin)
	}
	nc, err := nats.Connect("nats://"+address, nats.UserInfo("honest", "correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	quiet := s.asksFor(wellAfter, nc)
	before := s.peakRSS()
	hostile := exec.Command(os.Args[0], "-test.run", "^TestHostile$")
	hostile.Env = append(os.Environ(), hostileEnv+"="+s.HTTP+" "+address)
	end, err := hostile.StdinPipe()
	if err == nil {
		err = hostile.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(wellAfter) // all have connected
	beside := s.asksFor(floodLasts, nc)
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	_ = hostile.Wait() // what it was answered is of no interest
	time.Sleep(wellAfter)
	after := s.asksFor(wellAfter, nc)
	t.Logf("\n| half, 99 of 100 (requests) | write | read | query over NATS |\n|---|---|---|---|\n%s\n%s\n%s\nmemory: %d MiB, and %d at most",
		quiet.row("in quiet"), beside.row("beside the flood"), after.row("2 s after it"), before>>20, s.peakRSS()>>20)
	for _, list := range [][]time.Duration{
		beside.writes, beside.reads, beside.queries, after.writes, after.reads, after.queries,
	} {
		if p99 := list[len(list)*99/100]; p99 > servedWithin {
			t.Errorf("99 of 100 requests took up to %v", p99)
		}
	}
}
