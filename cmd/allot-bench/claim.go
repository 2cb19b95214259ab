package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// benchClaimCommand is "allot-bench claim": claims over NATS, as fast as they go and at half of that rate, and
// the old way beside it: candidates, then allocate, and again if others were faster.
type benchClaimCommand struct {
	serverFlags `embed:""`

	Providers int    `help:"Providers to make, and to claim from." default:"100000" least:"1"`
	Claims    int    `help:"Claims to make." default:"1000000" least:"1"`
	Dir       string `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
	Connected int    `name:"clients" help:"Clients at a time, each with a connection." default:"4" least:"1"`
	Pipelined int    `help:"Claims under way per client, up to 64 with one message." default:"512" least:"1"`
	Prefer    string `help:"What is preferred: pack, spread, random or none." enum:"pack,spread,random,none" default:"spread"`
	OldWay    int    `help:"How often to allocate in the old way; 0: never." default:"2000"`

	made []ledger.UUID // providers
}

type claimBench struct {
	first             time.Duration // the first claim, which makes the order
	claims, half, old *timings      // half: at half of the rate of claims
	rejected          atomic.Int64  // of the claims
	processor         time.Duration // of the server, for all claims as fast as they go
	retries, noneLeft atomic.Int64  // in the old way
	peakMemory        int64         // of the server
	grown             int64         // its memory, by the providers
}

const (
	fastTrait = "CUSTOM_BENCH_FAST" // of every tenth provider
	perBatch  = 150
	// perMessage is how many claims go with one message at most, if as many are due.
	perMessage = 64
	// halfRateFor is how long the rate is halved.
	halfRateFor = 30 * time.Second
	// oldLimit is how many candidates are asked for in the old way, and oldAtOnce by how many
	// clients at a time.
	oldLimit  = 10
	oldAtOnce = 16
)

// Run measures and prints.
func (c *benchClaimCommand) Run(ctx context.Context) error {
	return inFolder(c.Dir, func(folder string) error {
		result, err := c.run(ctx, folder)
		if err != nil {
			return err
		}
		return c.print(result)
	})
}

func (c *benchClaimCommand) run(ctx context.Context, folder string) (result *claimBench, err error) {
	own, err := c.start(ctx, filepath.Join(folder, "data"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, own.stop()) }()
	clients, closeAll, err := connect(own.nats, c.Connected)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	empty := own.residentMemory()
	if err := c.prepare(ctx, clients); err != nil {
		return nil, fmt.Errorf("the providers were not made: %w", err)
	}
	result = &claimBench{claims: newTimings(), half: newTimings(), old: newTimings(), grown: own.residentMemory() - empty}
	begun := time.Now()
	if _, err := clients[0].Claim(ctx, c.claim(0)); err != nil { // it makes the order
		return nil, err
	}
	result.first = time.Since(begun)
	before := own.processor()
	if err := c.claimAll(ctx, clients, c.Claims, 0, result.claims, &result.rejected); err != nil {
		return nil, err
	}
	result.processor = own.processor() - before
	rate := result.claims.rate() / 2
	some := min(c.Claims, int(rate*halfRateFor.Seconds()))
	if err := c.claimAll(ctx, clients, some, rate, result.half, new(atomic.Int64)); err != nil {
		return nil, err
	}
	err = result.old.run(ctx, oldAtOnce, below(c.OldWay), func(ctx context.Context, n int) error {
		return c.allocateOldWay(ctx, clients[0], c.claim(n), result)
	})
	result.peakMemory = own.peakMemory()
	return result, err
}

func (c *benchClaimCommand) prepare(ctx context.Context, clients []*client.Client) error {
	if _, err := clients[0].Submit(ctx, &commands.CreateTrait{Name: fastTrait}); err != nil {
		return err
	}
	c.made = make([]ledger.UUID, c.Providers)
	batches := below((c.Providers + perBatch - 1) / perBatch)
	return newTimings().run(ctx, len(clients), batches, func(ctx context.Context, n int) error {
		list := c.providers(n*perBatch, min((n+1)*perBatch, c.Providers))
		_, err := clients[n%len(clients)].SubmitAtomic(ctx, commands.NewID(), list...)
		return err
	})
}

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
	claim := &commands.Claim{Claim: demand.Claim{
		Requests: []demand.CandidateRequest{request},
		For:      []demand.ClaimConsumer{{Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench"}},
	}}
	if c.Prefer != "none" {
		claim.Prefer = &demand.ClaimPreference{Order: c.Prefer}
	}
	return claim
}

// dueClaim is a claim, and when it was due.
type dueClaim struct {
	due   time.Time
	claim *commands.Claim
}

// together returns a claim, and those that are due by now, as many as go with one message.
func together(one dueClaim, started <-chan dueClaim) []dueClaim {
	all := []dueClaim{one}
	for len(all) < perMessage {
		select {
		case next, more := <-started:
			if !more {
				return all
			}
			all = append(all, next)
		default:
			return all
		}
	}
	return all
}

func submit(ctx context.Context, allot *client.Client, all []dueClaim, into *timings, rejected *atomic.Int64) error {
	items := make([]client.Item, len(all))
	for i, one := range all {
		items[i] = client.Item{ID: commands.NewID(), Command: one.claim}
	}
	results, err := allot.SubmitAll(ctx, items)
	for i, result := range results {
		if isRejection(result.Err) {
			rejected.Add(1)
			result.Err = nil
		}
		err = errors.Join(err, result.Err, into.record(all[i].due))
	}
	return err
}

// claimAll makes some claims, at a rate if it is not 0: latency then counts from when each
// was due. One goroutine for each client makes them, and the others submit them. A
// goroutine that allocates memory while garbage is collected has to help the collector,
// and thousands with a claim now and then would distort the measurement.
func (c *benchClaimCommand) claimAll(
	ctx context.Context, clients []*client.Client, n int, rate float64, into *timings, rejected *atomic.Int64,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for _, allot := range clients {
		started := make(chan dueClaim, perMessage)
		all.Go(func() {
			defer close(started)
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				due := time.Now()
				if rate > 0 {
					due = begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				started <- dueClaim{due, c.claim(int(i))}
			}
		})
		for range (c.Pipelined + perMessage - 1) / perMessage {
			all.Go(func() {
				for one := range started {
					if err := submit(ctx, allot, together(one, started), into, rejected); err != nil {
						cancel(err)
					}
				}
			})
		}
	}
	all.Wait()
	into.took = time.Since(begun)
	return context.Cause(ctx)
}

// allocateOldWay asks for candidates and allocates one of them, until it gets one or there is none.
func (c *benchClaimCommand) allocateOldWay(
	ctx context.Context, allot *client.Client, claim *commands.Claim, result *claimBench,
) error {
	for {
		found, err := allot.Candidates(ctx, wire.CandidatesQuery{Groups: claim.Requests[0].Groups, Limit: oldLimit})
		if err != nil {
			return err
		}
		if len(found.Result) == 0 {
			result.noneLeft.Add(1)
			return nil
		}
		// All clients that take the first candidate offered meet there.
		for _, i := range rand.Perm(len(found.Result)) {
			want := commands.ConsumerAllocations{Consumer: claim.For[0].Consumer, Project: "bench", User: "bench"}
			for _, a := range found.Result[i].Allocations {
				want.Resources = append(
					want.Resources, commands.ProviderAllocation{Provider: a.Provider, Class: a.Class, Amount: a.Amount},
				)
			}
			_, err := allot.Submit(ctx, &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{want}})
			if !isRejection(err) {
				return err
			}
			result.retries.Add(1)
		}
	}
}

func (c *benchClaimCommand) print(r *claimBench) error {
	_, err := fmt.Printf(`%d claims of %d providers, order %s; the first took %.1f ms
%-24s %10s %9s %9s
%s   %d rejected, %.1f us of the server's processors each
%s
%s   %d rejected, %d retries
%d MB of memory at most
`, c.Claims, c.Providers, c.Prefer, r.first.Seconds()*1000, "", "per second", "p50 ms", "p99 ms",
		r.claims.row("claims"), r.rejected.Load(), r.processor.Seconds()*1e6/float64(c.Claims), r.half.row("claims at a steady rate"),
		r.old.row("candidates, then allocate"), r.noneLeft.Load(), r.retries.Load(), r.peakMemory>>20)
	return err
}
