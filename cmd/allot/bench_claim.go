package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// benchClaimCommand is "allot bench claim": claims over NATS, as fast as
// they go and at half of that rate, and the old way beside it: candidates, then
// allocate, and again if others were faster.
type benchClaimCommand struct {
	Providers int    `help:"Providers to make, and to claim from." default:"100000"`
	Claims    int    `help:"Claims to make." default:"1000000"`
	JSON      bool   `name:"json" help:"Print JSON."`
	Dir       string `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
	NATS      string `name:"nats" help:"Measure the server at this NATS address instead of one of its own; it keeps what the measurement makes." placeholder:"URL"`
	Connected int    `name:"clients" help:"Clients at a time, each with a connection." default:"4"`
	Pipelined int    `help:"Claims under way per client." default:"512"`
	Prefer    string `help:"What is preferred: pack, spread, random or none." enum:"pack,spread,random,none" default:"spread"`
	OldWay    int    `help:"How often to allocate in the old way." default:"2000"`
	OldAtOnce int    `name:"old-way-clients" help:"Clients of the old way at a time." default:"16"`
}

// check refuses numbers that measure nothing.
func (c *benchClaimCommand) check() error {
	for _, one := range []struct {
		flag  string
		value int
	}{
		{"--providers", c.Providers}, {"--claims", c.Claims}, {"--clients", c.Connected}, {"--pipelined", c.Pipelined},
		{"--old-way-clients", c.OldAtOnce},
	} {
		if one.value < 1 {
			return fmt.Errorf("%s %d: 1 or more are needed", one.flag, one.value)
		}
	}
	return nil
}

// claimBench is what was measured.
type claimBench struct {
	Providers       int       `json:"providers"`
	Claims          int       `json:"claims"`
	Prefer          string    `json:"prefer"`
	ClaimsPerSecond float64   `json:"claims_per_second"`
	P50             float64   `json:"p50_ms"`
	P99             float64   `json:"p99_ms"`
	Rejected        int64     `json:"rejected"`
	HalfRate        halfRate  `json:"half_rate"`
	OldWay          oldWay    `json:"old_way"`
	PeakMemoryMB    int64     `json:"peak_memory_mb,omitempty"` // of server and clients in one process; absent: another process serves
	Started         time.Time `json:"started"`
}

// halfRate is what claims take at half of the rate that is possible.
type halfRate struct {
	ClaimsPerSecond float64 `json:"claims_per_second"`
	P50             float64 `json:"p50_ms"`
	P99             float64 `json:"p99_ms"`
}

// oldWay is candidates, then allocate.
type oldWay struct {
	AllocationsPerSecond float64 `json:"allocations_per_second"`
	P50                  float64 `json:"p50_ms"`
	P99                  float64 `json:"p99_ms"`
	Retries              int64   `json:"retries"`
}

const (
	fastTrait = "CUSTOM_BENCH_FAST" // of every tenth provider
	// perBatch is how many providers are made at once.
	perBatch = 150
	// halfRateFor is how long the rate is halved.
	halfRateFor = 10 * time.Second
	// oldLimit is how many candidates are asked for in the old way.
	oldLimit = 10
)

// Run measures and prints.
func (c *benchClaimCommand) Run(ctx context.Context) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	url := c.NATS
	if url == "" {
		stop, own, err := c.serve(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		url = own
	}
	result := claimBench{Providers: c.Providers, Claims: c.Claims, Prefer: c.Prefer, Started: time.Now().UTC()}
	clients := make([]*client.Client, max(1, c.Connected))
	for i := range clients {
		nc, err := nats.Connect(url, nats.MaxReconnects(-1))
		if err != nil {
			return err
		}
		defer nc.Close()
		clients[i] = client.New(nc, client.Options{TryTimeout: time.Minute})
	}
	if err := c.prepare(ctx, clients[0]); err != nil {
		return fmt.Errorf("the providers were not made: %w", err)
	}
	if _, err := clients[0].Claim(ctx, c.claim(0)); err != nil { // it makes the order
		return err
	}
	if err := c.measure(ctx, clients, &result); err != nil {
		return err
	}
	if err := c.measureOldWay(ctx, clients[0], &result.OldWay); err != nil {
		return err
	}
	if c.NATS == "" {
		result.PeakMemoryMB = peakMemory() >> 20
	}
	return c.print(&result)
}

// serve starts a server of its own.
func (c *benchClaimCommand) serve(ctx context.Context) (stop func() error, url string, err error) {
	dir, err := os.MkdirTemp(c.Dir, "allot-bench-")
	if err != nil {
		return nil, "", err
	}
	s := newServer(&serveCommand{
		Data: filepath.Join(dir, "data"), HTTP: "127.0.0.1:0", NATS: "127.0.0.1:0", CandidatesBudget: 50_000_000,
	}, slog.New(slog.DiscardHandler))
	if err := s.start(ctx); err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	return func() error { return errors.Join(s.stop(), os.RemoveAll(dir)) }, s.log.url, nil
}

// prepare makes the providers, many at once.
func (c *benchClaimCommand) prepare(ctx context.Context, allot *client.Client) error {
	_, err := allot.Submit(ctx, &commands.CreateTrait{Name: fastTrait})
	var rejected *client.RejectedError
	if err != nil && !errors.As(err, &rejected) { // a server that was measured before has it
		return err
	}
	for from := 0; from < c.Providers; from += perBatch {
		var list []commands.Command
		for i := from; i < min(from+perBatch, c.Providers); i++ {
			id := ledger.UUID(uuid.New())
			list = append(list, &commands.CreateProvider{Provider: id, Name: "bench-" + id.String()},
				&commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{
					{Class: "VCPU", Total: 64}, {Class: "MEMORY_MB", Total: 256 << 10}, {Class: "DISK_GB", Total: 4000},
				}})
			if i%10 == 0 {
				list = append(list, &commands.ReplaceProviderTraits{Provider: id, Traits: []string{fastTrait}})
			}
		}
		if _, err := allot.SubmitAtomic(ctx, commands.NewID(), list...); err != nil {
			return err
		}
	}
	return nil
}

// claim is the n-th one: a tenth wants a trait, a tenth has two groups.
func (c *benchClaimCommand) claim(n int) *commands.Claim {
	size := int64(1) << (n % 3)
	group := commands.RequestGroup{
		Resources: map[string]int64{"VCPU": size, "MEMORY_MB": 2048 * size, "DISK_GB": 20 * size},
	}
	request := commands.CandidateRequest{Groups: []commands.RequestGroup{group}}
	switch n % 10 {
	case 0:
		request.Groups[0].Required = [][]string{{fastTrait}}
	case 1:
		request.Groups = []commands.RequestGroup{
			{Suffix: "_compute", Resources: map[string]int64{"VCPU": size, "MEMORY_MB": 2048 * size}},
			{Suffix: "_disk", Resources: map[string]int64{"DISK_GB": 20 * size}},
		}
	}
	claim := &commands.Claim{
		Requests: []commands.CandidateRequest{request},
		For:      []commands.ClaimConsumer{{Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench"}},
	}
	if c.Prefer != "none" {
		claim.Prefer = &commands.ClaimPreference{Order: c.Prefer}
	}
	return claim
}

// measure makes the claims: nearly all as fast as they go, and then some more at half of the rate.
func (c *benchClaimCommand) measure(ctx context.Context, clients []*client.Client, result *claimBench) error {
	full, took, rejected, err := c.claims(ctx, clients, c.Claims, 0)
	if err != nil {
		return err
	}
	result.ClaimsPerSecond = float64(full.TotalCount()) / took.Seconds()
	result.P50, result.P99, result.Rejected = millis(full, 50), millis(full, 99), rejected
	rate := result.ClaimsPerSecond / 2
	half, took, _, err := c.claims(ctx, clients, min(c.Claims, int(rate*halfRateFor.Seconds())), rate)
	if err != nil {
		return err
	}
	result.HalfRate = halfRate{
		ClaimsPerSecond: float64(half.TotalCount()) / took.Seconds(), P50: millis(half, 50), P99: millis(half, 99),
	}
	return nil
}

func millis(h *hdrhistogram.Histogram, quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / 1000
}

// claims makes some claims, at a rate if it is not 0: latency then counts from
// when each was due.
func (c *benchClaimCommand) claims(
	ctx context.Context, clients []*client.Client, n int, rate float64,
) (latency *hdrhistogram.Histogram, took time.Duration, rejected int64, err error) {
	latency = hdrhistogram.New(shortestMicros, longestMicros, digits)
	var next, refused atomic.Int64
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	begun := time.Now()
	for _, allot := range clients {
		for range max(1, c.Pipelined) {
			all.Go(func() {
				mine := hdrhistogram.New(shortestMicros, longestMicros, digits)
				var err error
				for err == nil {
					i := next.Add(1) - 1
					if i >= int64(n) {
						break
					}
					due := time.Now()
					if rate > 0 {
						due = begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))
						time.Sleep(time.Until(due))
					}
					_, err = allot.Start(ctx, c.claim(int(i))).Wait()
					if rejection := (*client.RejectedError)(nil); errors.As(err, &rejection) {
						refused.Add(1)
						err = nil
					}
					if err == nil {
						err = mine.RecordValue(max(shortestMicros, time.Since(due).Microseconds()))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				latency.Merge(mine)
				failure = errors.Join(failure, err)
			})
		}
	}
	all.Wait()
	return latency, time.Since(begun), refused.Load(), failure
}

// measureOldWay asks for candidates and allocates the first that nobody else has taken.
func (c *benchClaimCommand) measureOldWay(ctx context.Context, allot *client.Client, result *oldWay) error {
	latency := hdrhistogram.New(shortestMicros, longestMicros, digits)
	var next, retries atomic.Int64
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	begun := time.Now()
	for range max(1, c.OldAtOnce) {
		all.Go(func() {
			mine := hdrhistogram.New(shortestMicros, longestMicros, digits)
			var err error
			for err == nil {
				i := next.Add(1) - 1
				if i >= int64(c.OldWay) {
					break
				}
				start := time.Now()
				if err = allocateOldWay(ctx, allot, c.claim(int(i)), &retries); err == nil {
					err = mine.RecordValue(max(shortestMicros, time.Since(start).Microseconds()))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			latency.Merge(mine)
			failure = errors.Join(failure, err)
		})
	}
	all.Wait()
	*result = oldWay{
		AllocationsPerSecond: float64(latency.TotalCount()) / time.Since(begun).Seconds(), P50: millis(latency, 50),
		P99: millis(latency, 99), Retries: retries.Load(),
	}
	return failure
}

func allocateOldWay(ctx context.Context, allot *client.Client, claim *commands.Claim, retries *atomic.Int64) error {
	for {
		found, err := allot.Candidates(ctx, wire.CandidatesQuery{Groups: claim.Requests[0].Groups, Limit: oldLimit})
		if err != nil {
			return err
		}
		if len(found.Result) == 0 {
			return errors.New("there are no candidates left")
		}
		// Whoever takes the first that is offered meets all others there.
		for _, i := range rand.Perm(len(found.Result)) {
			want := commands.ConsumerAllocations{Consumer: claim.For[0].Consumer, Project: "bench", User: "bench"}
			for _, a := range found.Result[i].Allocations {
				want.Resources = append(
					want.Resources, commands.ProviderAllocation{Provider: a.Provider, Class: a.Class, Amount: a.Amount},
				)
			}
			_, err := allot.Submit(ctx, &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{want}})
			if rejected := (*client.RejectedError)(nil); errors.As(err, &rejected) {
				retries.Add(1)
				continue
			}
			return err
		}
	}
}

// peakMemory is the most that the process had in memory, where the system says so.
func peakMemory() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 && err == nil {
			return kb << 10
		}
	}
	return 0
}

func (c *benchClaimCommand) print(r *claimBench) error {
	if c.JSON {
		text, err := ledger.PlainJSON(r)
		if err == nil {
			_, err = fmt.Println(string(text))
		}
		return err
	}
	_, err := fmt.Printf(`%d claims of %d providers, order %s
%-24s %10s %9s %9s
%-24s %10.0f %9.2f %9.2f   %d rejected
%-24s %10.0f %9.2f %9.2f
%-24s %10.0f %9.2f %9.2f   %d retries
`, r.Claims, r.Providers, r.Prefer, "", "per second", "p50 ms", "p99 ms",
		"claims", r.ClaimsPerSecond, r.P50, r.P99, r.Rejected,
		"claims at half the rate", r.HalfRate.ClaimsPerSecond, r.HalfRate.P50, r.HalfRate.P99,
		"candidates, then allocate", r.OldWay.AllocationsPerSecond, r.OldWay.P50, r.OldWay.P99, r.OldWay.Retries)
	if err == nil && r.PeakMemoryMB > 0 {
		_, err = fmt.Printf("%d MB of memory at most, clients included\n", r.PeakMemoryMB)
	}
	return err
}
