package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
)

// floodsCommand is "allot-bench floods": how others are served beside hostile clients that
// have logged in, and soon after.
type floodsCommand struct {
	serverFlags `embed:""`

	Dir      string        `help:"Folder for the ledger; emptied afterwards." type:"path" default:"."`
	Hostile  int           `help:"Hostile clients, from 4 addresses." default:"16" least:"1"`
	Duration time.Duration `help:"How long the flood lasts; other phases take a tenth of that." default:"20s" least:"100ms"`
	Against  []string      `help:"Flood a server at these addresses of HTTP and NATS until standard input ends." hidden:""`
}

// What docs/security.md says of them, and promises.
const (
	hostileAddresses = 4
	floodPassword    = "correct horse" // of a server that is gone after the run
	servedWithin     = 5 * time.Second // 99 of 100 requests of another client
	floodedProviders = 1000
)

// Run measures, prints, and fails if others were served too late.
func (c *floodsCommand) Run(ctx context.Context) error {
	if len(c.Against) == 2 {
		c.flood(ctx, c.Against[0], c.Against[1])
		return nil
	}
	return inFolder(c.Dir, func(folder string) error { return c.measure(ctx, folder) })
}

func (c *floodsCommand) measure(ctx context.Context, folder string) (err error) {
	users, err := c.users(folder)
	if err != nil {
		return err
	}
	own, err := c.start(ctx, filepath.Join(folder, "data"), "--nats-users", users)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.stop()) }()
	nc, err := nats.Connect(own.nats, nats.UserInfo("honest", floodPassword))
	if err != nil {
		return err
	}
	defer nc.Close()
	h := honest{client: from("127.0.0.1", 4), http: own.http, nc: nc}
	for n := range floodedProviders {
		if err := h.ask(ctx, "POST", "/resource_providers", fmt.Sprintf(`{"name":"host-%d"}`, n)); err != nil {
			return err
		}
	}
	fmt.Printf("%-24s %10s %9s %9s\n", "", "a second", "p50 ms", "p99 ms")
	short := c.Duration / 10
	err = h.asks(ctx, "in quiet", short)
	before := own.peakMemory()
	end, floodErr := c.startFlood(own)
	if floodErr != nil {
		return errors.Join(err, floodErr)
	}
	time.Sleep(short) // all have connected
	err = errors.Join(err, h.asks(ctx, "beside the flood", c.Duration))
	end()
	time.Sleep(short)
	err = errors.Join(err, h.asks(ctx, fmt.Sprint(short, " after it"), short))
	fmt.Printf("memory: %d MiB, and %d at most\n", before>>20, own.peakMemory()>>20)
	return err
}

func (c *floodsCommand) users(folder string) (path string, err error) {
	program, err := c.program()
	if err != nil {
		return "", err
	}
	hash := exec.Command(program, "nats-password")
	hash.Stdin = strings.NewReader(floodPassword + "\n")
	password, err := hash.Output()
	if err != nil {
		return "", fmt.Errorf("allot nats-password: %w", err)
	}
	line := "  - {name: %s, password: %q, role: %s}\n"
	users := "users:\n" + fmt.Sprintf(line, "honest", strings.TrimSpace(string(password)), "submitter")
	for n := range c.Hostile {
		users += fmt.Sprintf(line, fmt.Sprint("hostile", n), strings.TrimSpace(string(password)), "operator")
	}
	path = filepath.Join(folder, "users.yaml")
	return path, os.WriteFile(path, []byte(users), 0o600)
}

// startFlood starts the process that floods a server, and returns what ends it.
func (c *floodsCommand) startFlood(server *server) (end func(), err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	hostile := exec.Command(own, "floods", "--hostile", strconv.Itoa(c.Hostile),
		"--against", server.http, "--against", server.nats)
	input, err := hostile.StdinPipe()
	if err != nil {
		return nil, err
	}
	return func() {
		_ = input.Close()
		_ = hostile.Wait() // what it was answered is of no interest
	}, hostile.Start()
}

type honest struct {
	client *http.Client
	http   string
	nc     *nats.Conn
}

// asks asks for a while: a write and a read over HTTP, and a query over NATS. It prints how
// long they took, and fails if one did, or if they took too long.
func (h *honest) asks(ctx context.Context, phase string, lasts time.Duration) error {
	var trait string
	var failed error
	kinds := []struct {
		name string
		do   func() error
		took *timings
	}{
		{"write", func() error { return h.ask(ctx, "PUT", trait, "") }, newTimings()},
		{"read", func() error { return h.ask(ctx, "GET", trait, "") }, newTimings()},
		{"query over NATS", func() error {
			_, err := h.nc.Request("allot.query.Usages", []byte(`{"project":"p"}`), time.Minute)
			return err
		}, newTimings()},
	}
	for begun := time.Now(); time.Since(begun) < lasts && ctx.Err() == nil; {
		trait = "/traits/CUSTOM_" + strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-", "_"))
		for _, kind := range kinds {
			start := time.Now()
			failed = errors.Join(failed, kind.do(), kind.took.record(start))
			kind.took.took += time.Since(start)
		}
	}
	fmt.Println(phase)
	for _, kind := range kinds {
		fmt.Println(kind.took.row("  " + kind.name))
		if p99 := kind.took.millis(99); p99 > float64(servedWithin.Milliseconds()) {
			failed = errors.Join(failed, fmt.Errorf("%s: 99 of 100 took up to %.0f ms: %s", phase, p99, kind.name))
		}
	}
	return failed
}

func (h *honest) ask(ctx context.Context, method, path, body string) error {
	answer, err := send(ctx, h.client, method, h.http, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode >= http.StatusMultipleChoices {
		return errors.Join(fmt.Errorf("%s %s: %d %.200s", method, path, answer.StatusCode, text), err)
	}
	return nil
}

func from(address string, connections int) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: connections,
	}}
}

func send(ctx context.Context, client *http.Client, method, address, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	r.Header.Set("Content-Type", "application/json")
	return client.Do(r)
}

// webFloods are ways to ask for too much over HTTP, over so many connections; unread: the
// bodies of answers are not read.
var webFloods = []struct {
	method, path, body string
	connections        int
	unread             bool
}{
	{"PUT", "/allocations/22222222-2222-4222-8222-222222222222", // is refused
		`{"allocations":{"33333333-3333-4333-8333-333333333333":{"resources":{"VCPU":1}}},"project_id":"p",` +
			`"user_id":"u","consumer_generation":null,"consumer_type":"X"}`, 64, false},
	{"GET", "/resource_providers", "", 64, false},
	{"GET", "/allocation_candidates?resources=VCPU:1", "", 64, false},
	{"GET", "/allocation_candidates?resources=VCPU:1&at=3", "", 64, false}, // the past
	{"GET", "/resource_providers", "", 256, true},
	{"POST", "/allocations", `{"x":["` + strings.Repeat("y", 1<<20) + `"]}`, 32, false},
}

// natsFloods are such ways over NATS, without waiting for answers.
var natsFloods = [][2]string{{"allot.command.CreateTrait", `{"name":"CUSTOM_X"}`}, {"$SRV.INFO.allot", ""}}

// flood floods a server until standard input ends.
func (c *floodsCommand) flood(ctx context.Context, address, natsURL string) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for n := range c.Hostile {
		way := n % (len(webFloods) + len(natsFloods))
		if way >= len(webFloods) {
			all.Go(func() { floodNATS(ctx, n, natsURL, natsFloods[way-len(webFloods)]) })
			continue
		}
		client := from(fmt.Sprint("127.0.0.", 2+n%hostileAddresses), webFloods[way].connections)
		for range webFloods[way].connections {
			all.Go(func() { floodHTTP(ctx, client, way, address) })
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the process that started this one
	cancel()
	all.Wait()
}

func floodHTTP(ctx context.Context, client *http.Client, way int, address string) {
	f := webFloods[way]
	for ctx.Err() == nil {
		answer, err := send(ctx, client, f.method, address, f.path, f.body)
		if err != nil {
			continue
		}
		if f.unread {
			<-ctx.Done()
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
}

func floodNATS(ctx context.Context, n int, url string, request [2]string) {
	for ctx.Err() == nil {
		nc, err := nats.Connect(url, nats.UserInfo(fmt.Sprint("hostile", n), floodPassword))
		if err != nil {
			continue
		}
		for ctx.Err() == nil && nc.IsConnected() {
			msg := &nats.Msg{Subject: request[0], Reply: "_INBOX.x", Data: []byte(request[1]), Header: nats.Header{}}
			msg.Header.Set("Allot-Command-Id", uuid.NewString())
			if err := nc.PublishMsg(msg); err != nil {
				break
			}
		}
		nc.Close()
	}
}
