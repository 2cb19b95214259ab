package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// benchClaimCommand is "allot-bench claim": claims over NATS, as fast as
// they go and at half of that rate, and the old way beside it: candidates, then
// allocate, and again if others were faster.
type benchClaimCommand struct {
	serverFlags `embed:""`

	Providers int           `help:"Providers to make, and to claim from." default:"100000" least:"1"`
	Claims    int           `help:"Claims to make." default:"1000000" least:"1"`
	JSON      bool          `name:"json" help:"Print JSON."`
	Dir       string        `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
	NATS      string        `name:"nats" help:"Measure the server at this NATS address instead of one of its own; it keeps what the measurement makes." placeholder:"URL"`
	Connected int           `name:"clients" help:"Clients at a time, each with a connection." default:"4" least:"1"`
	Pipelined int           `help:"Claims under way per client." default:"512" least:"1"`
	Prefer    string        `help:"What is preferred: pack, spread, random or none." enum:"pack,spread,random,none" default:"spread"`
	Rate      float64       `help:"Claims a second where latency is measured; 0: half of the rate that was reached before." default:"0"`
	OldWay    int           `help:"How often to allocate in the old way; 0: never." default:"2000"`
	OldAtOnce int           `name:"old-way-clients" help:"Clients of the old way at a time." default:"16" least:"1"`
	Beside    time.Duration `help:"How long to measure plain allocations beside each kind of load, in turns; 0: not at all." default:"9s"`
	Racers    int           `help:"Clients of a race for the last places, which are a tenth as many; 0: no race." default:"1000"`

	made []ledger.UUID // providers
}

// claimBench is what was measured.
type claimBench struct {
	Providers       int          `json:"providers"`
	Claims          int          `json:"claims"`
	Prefer          string       `json:"prefer"`
	FirstMillis     float64      `json:"first_ms"` // the first claim, which makes the order
	ClaimsPerSecond float64      `json:"claims_per_second"`
	P50             float64      `json:"p50_ms"`
	P99             float64      `json:"p99_ms"`
	Rejected        int64        `json:"rejected"`
	Steady          halfRate     `json:"half_rate"` // or what --rate says
	OldWay          oldWay       `json:"old_way"`
	Allocations     []besideLoad `json:"allocations,omitempty"` // plain ones, beside loads
	Race            *lastPlaces  `json:"race,omitempty"`
	PeakMemoryMB    int64        `json:"peak_memory_mb,omitempty"` // of the server; absent: it was given
	Started         time.Time    `json:"started"`
}

// halfRate is what claims take at half of the rate that is possible, or at one that is given.
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
	Rejected             int64   `json:"rejected"` // there were no candidates left
}

const (
	fastTrait = "CUSTOM_BENCH_FAST" // of every tenth provider
	// perBatch is how many providers are made at once.
	perBatch = 150
	// halfRateFor is how long the rate is halved.
	halfRateFor = 30 * time.Second
	// oldLimit is how many candidates are asked for in the old way.
	oldLimit = 10
)

// Run measures and prints.
func (c *benchClaimCommand) Run(ctx context.Context) error {
	result, err := c.run(ctx)
	if err != nil {
		return err
	}
	return c.print(result)
}

func (c *benchClaimCommand) run(ctx context.Context) (result *claimBench, err error) {
	url := c.NATS
	var own *server
	if url == "" {
		dir, err := os.MkdirTemp(c.Dir, "allot-bench-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		own, err = c.start(ctx, filepath.Join(dir, "data"))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, own.stop()) }()
		url = own.nats
	}
	result = &claimBench{Providers: c.Providers, Claims: c.Claims, Prefer: c.Prefer, Started: time.Now().UTC()}
	clients := make([]*client.Client, c.Connected)
	for i := range clients {
		nc, err := nats.Connect(url, nats.MaxReconnects(-1))
		if err != nil {
			return nil, err
		}
		defer nc.Close()
		clients[i] = client.New(nc, client.Options{TryTimeout: time.Minute})
	}
	if err := c.prepare(ctx, clients); err != nil {
		return nil, fmt.Errorf("the providers were not made: %w", err)
	}
	begun := time.Now()
	if _, err := clients[0].Claim(ctx, c.claim(0)); err != nil { // it makes the order
		return nil, err
	}
	result.FirstMillis = float64(time.Since(begun).Microseconds()) / 1000
	for _, measure := range []func() error{
		func() error { return c.measure(ctx, clients, result) },
		func() error { return c.measureOldWay(ctx, clients[0], &result.OldWay) },
		func() error { return c.measureBeside(ctx, clients, url, result) },
		func() error { return c.race(ctx, clients, result) },
	} {
		if err := measure(); err != nil {
			return nil, err
		}
	}
	if own != nil {
		result.PeakMemoryMB = own.peakMemory() >> 20
	}
	return result, nil
}

// prepare makes the providers, many at once.
func (c *benchClaimCommand) prepare(ctx context.Context, clients []*client.Client) error {
	_, err := clients[0].Submit(ctx, &commands.CreateTrait{Name: fastTrait})
	var rejected *client.RejectedError
	if err != nil && !errors.As(err, &rejected) { // a server that was measured before has it
		return err
	}
	c.made = make([]ledger.UUID, c.Providers)
	var next atomic.Int64
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	for _, allot := range clients {
		all.Go(func() {
			for {
				from := int(next.Add(perBatch)) - perBatch
				if from >= c.Providers {
					return
				}
				_, err := allot.SubmitAtomic(ctx, commands.NewID(), c.providers(from, min(from+perBatch, c.Providers))...)
				if err != nil {
					mu.Lock()
					failure = errors.Join(failure, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	return failure
}

// providers makes some of the providers.
func (c *benchClaimCommand) providers(from, to int) (list []commands.Command) {
	for i := from; i < to; i++ {
		id := ledger.UUID(uuid.New())
		c.made[i] = id
		list = append(list, &commands.CreateProvider{Provider: id, Name: "bench-" + id.String()},
			&commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{
				{Class: "VCPU", Total: 64}, {Class: "MEMORY_MB", Total: 256 << 10}, {Class: "DISK_GB", Total: 4000},
			}})
		if i%10 == 0 {
			list = append(list, &commands.ReplaceProviderTraits{Provider: id, Traits: []string{fastTrait}})
		}
	}
	return list
}

// claim is the n-th one: a tenth wants a trait, a tenth has two groups.
func (c *benchClaimCommand) claim(n int) *commands.Claim {
	size := int64(1) << (n % 3)
	group := demand.RequestGroup{
		Resources: map[string]int64{"VCPU": size, "MEMORY_MB": 2048 * size, "DISK_GB": 20 * size},
	}
	request := demand.CandidateRequest{Groups: []demand.RequestGroup{group}}
	switch n % 10 {
	case 0:
		request.Groups[0].Required = [][]string{{fastTrait}}
	case 1:
		request.Groups = []demand.RequestGroup{
			{Suffix: "_compute", Resources: map[string]int64{"VCPU": size, "MEMORY_MB": 2048 * size}},
			{Suffix: "_disk", Resources: map[string]int64{"DISK_GB": 20 * size}},
		}
	}
	claim := &commands.Claim{
		Requests: []demand.CandidateRequest{request},
		For:      []commands.ClaimConsumer{{Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench"}},
	}
	if c.Prefer != "none" {
		claim.Prefer = &demand.ClaimPreference{Order: c.Prefer}
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
	rate := c.Rate
	if rate == 0 {
		rate = result.ClaimsPerSecond / 2
	}
	half, took, _, err := c.claims(ctx, clients, min(c.Claims, int(rate*halfRateFor.Seconds())), rate)
	if err != nil {
		return err
	}
	result.Steady = halfRate{
		ClaimsPerSecond: float64(half.TotalCount()) / took.Seconds(), P50: millis(half, 50), P99: millis(half, 99),
	}
	return nil
}

func millis(h *hdrhistogram.Histogram, quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / 1000
}

// underWay is a claim that was started, and when it was due.
type underWay struct {
	due     time.Time
	pending *client.Pending
}

// claims makes some claims, at a rate if it is not 0: latency then counts from when each
// was due. One goroutine for each client makes them, and the others only wait. A
// goroutine that allocates memory while garbage is collected has to help the collector,
// and thousands with a claim now and then would distort the measurement.
func (c *benchClaimCommand) claims(
	ctx context.Context, clients []*client.Client, n int, rate float64,
) (latency *hdrhistogram.Histogram, took time.Duration, rejected int64, err error) {
	latency = hdrhistogram.New(shortestMicros, longestMicros, digits)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, refused atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	begun := time.Now()
	for _, allot := range clients {
		started := make(chan underWay)
		all.Go(func() {
			defer close(started)
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				due := time.Now()
				if rate > 0 {
					due = begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				started <- underWay{due, allot.Start(ctx, c.claim(int(i)))}
			}
		})
		for range max(1, c.Pipelined) {
			all.Go(func() {
				for claim := range started {
					_, err := claim.pending.Wait()
					passed := max(shortestMicros, time.Since(claim.due).Microseconds())
					if err != nil && isRejection(err) {
						refused.Add(1)
					} else if err != nil {
						cancel(err)
					}
					mu.Lock()
					err = latency.RecordValue(passed)
					mu.Unlock()
					if err != nil {
						cancel(err)
					}
				}
			})
		}
	}
	all.Wait()
	return latency, time.Since(begun), refused.Load(), context.Cause(ctx)
}

func isRejection(err error) bool {
	rejection := (*client.RejectedError)(nil)
	return errors.As(err, &rejection)
}

// measureOldWay asks for candidates and allocates the first that is still free.
func (c *benchClaimCommand) measureOldWay(ctx context.Context, allot *client.Client, result *oldWay) error {
	latency := hdrhistogram.New(shortestMicros, longestMicros, digits)
	var next, retries, rejected atomic.Int64
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
				err = allocateOldWay(ctx, allot, c.claim(int(i)), &retries)
				if errors.Is(err, errNoneLeft) {
					rejected.Add(1)
					err = nil
				}
				if err == nil {
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
		P99: millis(latency, 99), Retries: retries.Load(), Rejected: rejected.Load(),
	}
	return failure
}

func (c *benchClaimCommand) print(r *claimBench) error {
	if c.JSON {
		text, err := ledger.PlainJSON(r)
		if err == nil {
			_, err = fmt.Println(string(text))
		}
		return err
	}
	_, err := fmt.Printf(`%d claims of %d providers, order %s; the first took %.1f ms
%-24s %10s %9s %9s
%-24s %10.0f %9.2f %9.2f   %d rejected
%-24s %10.0f %9.2f %9.2f
%-24s %10.0f %9.2f %9.2f   %d rejected, %d retries
`, r.Claims, r.Providers, r.Prefer, r.FirstMillis, "", "per second", "p50 ms", "p99 ms",
		"claims", r.ClaimsPerSecond, r.P50, r.P99, r.Rejected,
		"claims at a steady rate", r.Steady.ClaimsPerSecond, r.Steady.P50, r.Steady.P99,
		"candidates, then allocate", r.OldWay.AllocationsPerSecond, r.OldWay.P50, r.OldWay.P99,
		r.OldWay.Rejected, r.OldWay.Retries)
	for _, one := range r.Allocations {
		if err == nil {
			_, err = fmt.Printf("%-24s %10.0f %9.2f %9.2f   with %.0f a second\n",
				"allocate "+one.Load, one.PerSecond, one.P50, one.P99, one.Beside)
		}
	}
	if race := r.Race; err == nil && race != nil {
		_, err = fmt.Printf(
			"%d clients for %d places: %d won by claims in %.0f ms; in the old way %d, with %d retries, in %.0f ms\n",
			race.Clients, race.Places, race.Claims.Won, race.Claims.Took, race.OldWay.Won, race.OldWay.Retries, race.OldWay.Took)
	}
	if err == nil && r.PeakMemoryMB > 0 {
		_, err = fmt.Printf("%d MB of memory at most\n", r.PeakMemoryMB)
	}
	return err
}
