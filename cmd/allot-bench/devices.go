package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// benchDevicesCommand is "allot-bench devices": searches for like devices beside a plain one,
// and for candidates among few and many providers, in this process; then claims over NATS.
type benchDevicesCommand struct {
	serverFlags `embed:""`

	Hosts     int           `help:"Hosts, each with 8 devices." default:"10000" least:"1300"`
	Each      time.Duration `help:"How long to measure each search." default:"2s" least:"10ms"`
	Sizes     []int         `help:"Numbers of providers to search." default:"1000,100000,1000000"`
	Providers int           `help:"Providers to claim from; 0: none." default:"100000"`
	Claims    int           `help:"Claims to make." default:"500000" least:"1"`
	Dir       string        `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
}

const (
	hostDevices = 8
	gangOf      = 64
	wholeEvery  = 20 // hosts of which one has all devices free, where gangs are searched
	fastDevice  = "CUSTOM_FAST"

	deviceClass, coreClass, memoryClass ledger.ClassID = 0, 1, 2
)

var benchClasses = ledger.NewClassTable([]ledger.Class{
	{ID: deviceClass, Name: "PGPU"}, {ID: coreClass, Name: "VCPU"}, {ID: memoryClass, Name: "MEMORY_MB"},
})

// Run measures and prints.
func (c *benchDevicesCommand) Run(ctx context.Context) error {
	if err := errors.Join(c.devices(ctx), c.sizes(ctx)); err != nil || c.Providers == 0 {
		return err
	}
	return inFolder(c.Dir, func(folder string) error { return c.claims(ctx, folder) })
}

// time measures how long something takes, and what it allocates each time.
func (c *benchDevicesCommand) time(ctx context.Context, do func(n int) error) (t *timings, bytes uint64, err error) {
	if err := do(0); err != nil { // it may make an order
		return nil, 0, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	t = newTimings()
	begun := time.Now()
	err = t.run(ctx, 1, func(int) bool { return time.Since(begun) < c.Each },
		func(_ context.Context, n int) error { return do(n + 1) })
	runtime.ReadMemStats(&after)
	return t, (after.TotalAlloc - before.TotalAlloc) / uint64(max(1, t.latency.TotalCount())), err
}

func (c *benchDevicesCommand) devices(ctx context.Context) error {
	whole := c.Hosts / 2
	world := c.hosts(func(host int) bool { return host == whole })
	fmt.Printf("%d hosts of %d devices, one of them whole\n%-44s %9s %9s %9s\n", c.Hosts, hostDevices, "", "p50 ms",
		"p99 ms", "of plain")
	var plain *timings
	row := func(name string, do func(n int) error) error {
		t, _, err := c.time(ctx, do)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		plain = cmp.Or(plain, t)
		fmt.Printf("%-44s %9.3f %9.3f %9.1f\n", name, t.millis(50), t.millis(99), t.millis(50)/plain.millis(50))
		return nil
	}
	list := func(name string, request *demand.CandidateRequest, limit int) error {
		return row(fmt.Sprintf("candidates, %s, limit=%d", name, limit), func(int) error {
			return searchFor(ctx, world, request, limit)
		})
	}
	cores := &demand.CandidateRequest{Groups: []demand.RequestGroup{{Resources: map[string]int64{"VCPU": 1}}}}
	errs := []error{list("plain", cores, 100)}
	for groups := 1; groups <= hostDevices; groups++ {
		errs = append(errs, list(fmt.Sprint(groups, " groups"), devicesOf(groups), 100))
	}
	isolated, unequal := devicesOf(hostDevices), devicesOf(hostDevices)
	isolated.Isolate = true
	for i := range hostDevices / 2 {
		unequal.Groups[i].Required = [][]string{{fastDevice}}
	}
	for _, limit := range []int{1, 10, 1000} {
		errs = append(errs, list("8 groups", devicesOf(hostDevices), limit))
	}
	errs = append(errs, list("8 groups, isolate", isolated, 100), list("8 groups, 4 with a trait", unequal, 100))
	gangs := c.hosts(func(host int) bool { return host%wholeEvery == 0 })
	for _, order := range []string{"none", demand.OrderPack, demand.OrderSpread, demand.OrderRandom} {
		errs = append(errs, row("claim of 8 groups, "+order, claimsOf(ctx, world, 1, order)),
			row("gang of 64 x 8 groups, "+order, claimsOf(ctx, gangs, gangOf, order)))
	}
	return errors.Join(errs...)
}

// sizes measures searches among few and many providers, while nothing changes, and with a change before each.
func (c *benchDevicesCommand) sizes(ctx context.Context) error {
	fmt.Printf("\n%-44s %9s %9s %9s\n", "candidates of 2 classes, limit=10", "bytes", "p50 ms", "p99 ms")
	request := &demand.CandidateRequest{Groups: []demand.RequestGroup{
		{Resources: map[string]int64{"VCPU": 1, "MEMORY_MB": 1}},
	}}
	for _, size := range c.Sizes {
		all := make([]*ledger.Provider, size)
		for i := range all {
			all[i] = device(nil, i, inventory(coreClass, 64), inventory(memoryClass, 4096))
		}
		index := candidates.NewIndex()
		index.Add(all)
		for _, changing := range []string{"", ", changing"} {
			t, bytes, err := c.time(ctx, func(n int) error {
				if changing != "" {
					change(index, all, n*7919%size)
				}
				return searchFor(ctx, index.Snapshot(), request, 10)
			})
			if err != nil {
				return err
			}
			fmt.Printf("%9d providers%-25s %9d %9.3f %9.3f\n", size, changing, bytes, t.millis(50), t.millis(99))
		}
	}
	return nil
}

func (c *benchDevicesCommand) claims(ctx context.Context, folder string) error {
	bench := &benchClaimCommand{
		serverFlags: c.serverFlags, Providers: c.Providers, Claims: c.Claims, Connected: 4, Pipelined: 512, Prefer: "spread",
	}
	result, err := bench.run(ctx, filepath.Join(folder, "claims"))
	if err != nil {
		return err
	}
	_, err = fmt.Printf("\n%d providers, %d bytes of memory each; the first claim took %.1f ms\n%-24s %10s %9s %9s\n%s\n%s\n",
		c.Providers, result.grown/int64(c.Providers), result.first.Seconds()*1000, "", "per second", "p50 ms", "p99 ms",
		result.claims.row("claims"), result.half.row("claims at a steady rate"))
	return err
}

// hosts makes hosts of devices: one device is used, but in those that are whole.
func (c *benchDevicesCommand) hosts(whole func(host int) bool) *candidates.World {
	var all []*ledger.Provider
	for h := range c.Hosts {
		host := device(nil, len(all), inventory(coreClass, 64))
		all = append(all, host)
		for i := range hostDevices {
			one := device(host, len(all), inventory(deviceClass, 1))
			if i%2 == 1 {
				one.Traits = []string{fastDevice}
			}
			if i == 0 && !whole(h) {
				one.Inventories[0].Used = 1
			}
			all = append(all, one)
		}
	}
	return candidates.NewWorld(all)
}

func device(parent *ledger.Provider, created int, inventories ...ledger.Inventory) *ledger.Provider {
	p := &ledger.Provider{UUID: ledger.UUID(uuid.New()), CreatedAt: int64(created), Inventories: inventories}
	p.Root = p.UUID
	if parent != nil {
		p.Root, p.Parent = parent.UUID, parent.UUID
	}
	return p
}

func inventory(class ledger.ClassID, total int64) ledger.Inventory {
	return ledger.Inventory{Class: class, Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, Ratio: 1}
}

// change has one more used of a provider, or one less.
func change(index *candidates.Index, all []*ledger.Provider, i int) {
	after := *all[i]
	after.Inventories = append([]ledger.Inventory{}, after.Inventories...)
	after.Inventories[0].Used ^= 1
	index.Apply([]ledger.ProviderChange{{Before: all[i], After: &after}})
	all[i] = &after
}

func devicesOf(groups int) *demand.CandidateRequest {
	request := new(demand.CandidateRequest)
	for i := range groups {
		request.Groups = append(request.Groups, demand.RequestGroup{
			Suffix: "_" + strconv.Itoa(i), Resources: map[string]int64{"PGPU": 1},
		})
	}
	return request
}

func searchFor(ctx context.Context, world *candidates.World, request *demand.CandidateRequest, limit int) error {
	resolved, rejection := request.Resolve(benchClasses)
	if rejection != nil {
		return fmt.Errorf("not a request: %s", rejection)
	}
	resolved.Limit = limit
	found := 0
	err := candidates.Search(ctx, world, resolved, func(*candidates.Candidate) bool { found++; return true })
	if err == nil && found == 0 {
		err = errors.New("nothing was found")
	}
	return err
}

// claimsOf searches for claims of devices, each with another seed.
func claimsOf(ctx context.Context, world *candidates.World, consumers int, order string) func(n int) error {
	search := &claiming.Search{
		Ranking: candidates.NewRanking(world), Classes: benchClasses, Spare: 1,
		Consumer: func(ledger.UUID) (*ledger.Consumer, error) { return nil, nil },
	}
	claim := &demand.Claim{Requests: []demand.CandidateRequest{*devicesOf(hostDevices)}}
	if order != "none" {
		claim.Prefer = &demand.ClaimPreference{Order: order}
	}
	for range consumers {
		claim.For = append(claim.For, demand.ClaimConsumer{Consumer: commands.NewID(), Project: "bench", User: "bench"})
	}
	return func(n int) error {
		search.Seed = uint64(n)
		found, err := search.Run(ctx, claim)
		if err == nil && len(found.Choices) == 0 {
			err = fmt.Errorf("a claim of %d hosts found nothing", consumers)
		}
		return err
	}
}
