package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// besideLoad is what plain allocations take beside some load.
type besideLoad struct {
	Load      string  `json:"load"`
	Beside    float64 `json:"load_per_second"` // commands of the load
	PerSecond float64 `json:"allocations_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
}

const (
	// besideRate is how many plain allocations a second are due, whatever the load.
	besideRate = 200
	// besideRounds is in how many turns each load is measured.
	besideRounds = 3
	// costlyAtOnce is how many claims that look at everything are under way.
	costlyAtOnce = 16
	// costlyWishes are more preferences than the order of what is best is divided by.
	costlyWishes = 5
)

// load is something that goes on beside plain allocations.
type load struct {
	name    string
	command func(n int) commands.Command // nil: nothing
	atOnce  int                          // under way per client

	latency  *hdrhistogram.Histogram
	commands atomic.Int64
	took     time.Duration
}

// measureBeside allocates at a steady rate beside each load, in turns, over a connection of
// its own. The load of allocations shows what a full queue costs, whatever is in it.
func (c *benchClaimCommand) measureBeside(
	ctx context.Context, clients []*client.Client, url string, result *claimBench,
) error {
	if c.Beside == 0 {
		return nil
	}
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	one := client.New(nc, client.Options{TryTimeout: time.Minute})
	loads := []*load{
		{name: "alone"},
		{name: "beside allocations", command: c.allocation, atOnce: c.Pipelined},
		{name: "beside claims", command: func(n int) commands.Command { return c.claim(n) }, atOnce: c.Pipelined},
		{name: "beside costly claims", command: c.costlyClaim, atOnce: costlyAtOnce},
	}
	for _, l := range loads {
		l.latency = hdrhistogram.New(shortestMicros, longestMicros, digits)
	}
	for range besideRounds {
		for _, i := range rand.Perm(len(loads)) {
			if err := c.besideOne(ctx, one, clients, loads[i], c.Beside/besideRounds); err != nil {
				return fmt.Errorf("allocations %s: %w", loads[i].name, err)
			}
		}
	}
	for _, l := range loads {
		result.Allocations = append(result.Allocations, besideLoad{
			Load: l.name, Beside: float64(l.commands.Load()) / l.took.Seconds(),
			PerSecond: float64(l.latency.TotalCount()) / l.took.Seconds(),
			P50:       millis(l.latency, 50), P99: millis(l.latency, 99),
		})
	}
	return nil
}

// allocation takes a core of some provider, as plainly as can be.
func (c *benchClaimCommand) allocation(int) commands.Command {
	return &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
		Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench",
		Resources: []commands.ProviderAllocation{{Provider: c.made[rand.N(len(c.made))], Class: "VCPU", Amount: 1}},
	}}}
}

// costlyClaim prefers more than can be ordered, so that each search looks at everything.
func (c *benchClaimCommand) costlyClaim(n int) commands.Command {
	claim := c.claim(n)
	claim.Prefer = &demand.ClaimPreference{Order: demand.OrderSpread}
	for range costlyWishes {
		claim.Prefer.Aggregates = append(
			claim.Prefer.Aggregates, demand.AggregatePreference{Aggregate: ledger.UUID(uuid.New()), Weight: 1},
		)
	}
	return claim
}

// besideOne measures for some time.
func (c *benchClaimCommand) besideOne(
	ctx context.Context, one *client.Client, clients []*client.Client, l *load, length time.Duration,
) error {
	begun := time.Now()
	end := begun.Add(length)
	failures := make(chan error, len(clients)*l.atOnce+besideRate)
	var all, measured sync.WaitGroup
	var n atomic.Int64
	for _, allot := range clients {
		for range l.atOnce {
			all.Go(func() {
				for time.Now().Before(end) {
					_, err := allot.Start(ctx, l.command(int(n.Add(1)))).Wait()
					if err != nil && !isRejection(err) {
						failures <- err
						return
					}
					l.commands.Add(1)
				}
			})
		}
	}
	var mu sync.Mutex
	for i := range int(besideRate * length.Seconds()) {
		due := begun.Add(time.Duration(i) * time.Second / besideRate)
		time.Sleep(time.Until(due))
		measured.Go(func() {
			_, err := one.Submit(ctx, c.allocation(i))
			if isRejection(err) {
				err = nil // the provider is full after many claims, and that took as long to tell
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = l.latency.RecordValue(max(shortestMicros, time.Since(due).Microseconds()))
			}
			if err != nil {
				select {
				case failures <- err:
				default: // the first are enough
				}
			}
		})
	}
	measured.Wait()
	l.took += time.Since(begun)
	all.Wait()
	close(failures)
	var failure error
	for err := range failures {
		failure = errors.Join(failure, err)
	}
	return failure
}

// lastPlaces is a race for what is left: with claims, and in the old way.
type lastPlaces struct {
	Clients int     `json:"clients"`
	Places  int     `json:"places"`
	Claims  raceWay `json:"claims"`
	OldWay  raceWay `json:"old_way"`
}

// raceWay is how a race went.
type raceWay struct {
	Won     int64   `json:"won"`
	Retries int64   `json:"retries"`
	Took    float64 `json:"ms"` // until the last client knew
}

const (
	raceTrait = "CUSTOM_BENCH_RACE_"
	// racersPerPlace and placesPerHost say how small the last places are.
	racersPerPlace = 10
	placesPerHost  = 10
)

// race has many clients want the last places at once: with claims, and then as many again
// in the old way.
func (c *benchClaimCommand) race(ctx context.Context, clients []*client.Client, into *claimBench) error {
	if c.Racers == 0 {
		return nil
	}
	result := &lastPlaces{Clients: c.Racers, Places: max(1, c.Racers/racersPerPlace)}
	var retries atomic.Int64
	for _, way := range []struct {
		name string
		into *raceWay
		try  func(*client.Client, *commands.Claim) (bool, error)
	}{
		{"CLAIMS", &result.Claims, func(allot *client.Client, claim *commands.Claim) (bool, error) {
			return wins(allot.Claim(ctx, claim))
		}},
		{"OLD_WAY", &result.OldWay, func(allot *client.Client, claim *commands.Claim) (bool, error) {
			err := allocateOldWay(ctx, allot, claim, &retries)
			if errors.Is(err, errNoneLeft) {
				return false, nil
			}
			return err == nil, err
		}},
	} {
		trait := raceTrait + way.name
		if err := c.lastHosts(ctx, clients[0], trait, result.Places); err != nil {
			return err
		}
		begun := time.Now()
		var err error
		if way.into.Won, err = c.runRace(clients, trait, way.try); err != nil {
			return fmt.Errorf("race: %w", err)
		}
		way.into.Took = float64(time.Since(begun).Microseconds()) / 1000
	}
	result.OldWay.Retries = retries.Load()
	into.Race = result
	return nil
}

func wins(_ client.Result, err error) (bool, error) {
	if rejected := (*client.RejectedError)(nil); errors.As(err, &rejected) {
		return false, nil
	}
	return err == nil, err
}

// lastHosts makes hosts with a trait that have so many places.
func (c *benchClaimCommand) lastHosts(ctx context.Context, allot *client.Client, trait string, places int) error {
	if _, err := allot.Submit(ctx, &commands.CreateTrait{Name: trait}); err != nil {
		return fmt.Errorf("the race is run once on a server: %w", err)
	}
	var list []commands.Command
	for left := places; left > 0; left -= placesPerHost {
		id := ledger.UUID(uuid.New())
		list = append(
			list, &commands.CreateProvider{Provider: id, Name: "bench-" + id.String()},
			&commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{
				{Class: "VCPU", Total: int64(min(left, placesPerHost))},
			}},
			&commands.ReplaceProviderTraits{Provider: id, Traits: []string{trait}},
		)
	}
	_, err := allot.SubmitAtomic(ctx, commands.NewID(), list...)
	return err
}

func (c *benchClaimCommand) runRace(
	clients []*client.Client, trait string, try func(*client.Client, *commands.Claim) (bool, error),
) (int64, error) {
	var won atomic.Int64
	failures := make(chan error, c.Racers)
	var all sync.WaitGroup
	for i := range c.Racers {
		all.Go(func() {
			mine, err := try(clients[i%len(clients)], &commands.Claim{
				Requests: []demand.CandidateRequest{{Groups: []demand.RequestGroup{{
					Resources: map[string]int64{"VCPU": 1}, Required: [][]string{{trait}},
				}}}},
				For: []commands.ClaimConsumer{{Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench"}},
			})
			if mine {
				won.Add(1)
			}
			failures <- err
		})
	}
	all.Wait()
	close(failures)
	var failure error
	for err := range failures {
		failure = errors.Join(failure, err)
	}
	return won.Load(), failure
}

var errNoneLeft = errors.New("there are no candidates left")

// allocateOldWay asks for candidates and allocates one of them, until it gets one or there
// is none.
func allocateOldWay(ctx context.Context, allot *client.Client, claim *commands.Claim, retries *atomic.Int64) error {
	for {
		found, err := allot.Candidates(ctx, wire.CandidatesQuery{Groups: claim.Requests[0].Groups, Limit: oldLimit})
		if err != nil {
			return err
		}
		if len(found.Result) == 0 {
			return errNoneLeft
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
			if rejected := (*client.RejectedError)(nil); errors.As(err, &rejected) {
				retries.Add(1)
				continue
			}
			return err
		}
	}
}
