package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
)

// benchCommand is "allot-bench commands": the same load over NATS in each encoding, one command in a request and
// pipelined, on a ledger of its own, durable, in one run.
type benchCommand struct {
	serverFlags `embed:""`

	Dir       string        `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
	Clients   int           `help:"Number of clients." default:"64" least:"1"`
	Pipelined int           `help:"Commands under way for each client, in the pipelined runs." default:"16" least:"1"`
	Duration  time.Duration `help:"How long to measure each way of submitting." default:"6s" least:"10ms"`
}

const (
	// rounds is in how many turns that time is divided. The ways alternate, so that the growing ledger
	// slows all of them alike.
	rounds         = 6
	providersToUse = 100
)

// Run prints a line for each way to submit, with its ratio to the first.
func (c *benchCommand) Run(ctx context.Context) error {
	return inFolder(c.Dir, func(folder string) error { return c.run(ctx, folder) })
}

func (c *benchCommand) run(ctx context.Context, folder string) (err error) {
	own, err := c.start(ctx, filepath.Join(folder, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.stop()) }()
	nc, err := nats.Connect(own.nats)
	if err != nil {
		return err
	}
	defer nc.Close()
	providers, err := prepare(ctx, client.New(nc, client.Options{}))
	if err != nil {
		return err
	}
	var ways []*way
	for name, contentType := range map[string]string{"msgpack": encoding.TypeMsgpack, "JSON": encoding.TypeJSON} {
		allot := client.New(nc, client.Options{Encoding: contentType})
		single := func(ctx context.Context, command commands.Command) error {
			_, err := allot.Submit(ctx, command)
			return err
		}
		pipelined := func(ctx context.Context, command commands.Command) error {
			_, err := allot.Start(ctx, command).Wait()
			return err
		}
		ways = append(ways, &way{name + ", one per request", c.Clients, newTimings(), single},
			&way{name + ", pipelined", c.Clients * c.Pipelined, newTimings(), pipelined})
	}
	slices.SortFunc(ways, func(a, b *way) int { return cmp.Compare(a.workers, b.workers) })
	if err := c.measureAll(ctx, ways, providers); err != nil {
		return err
	}
	fmt.Printf("%-34s %12s %8s %8s %8s %6s\n", "", "commands/s", "p50 ms", "p99 ms", "p99.9 ms", "ratio")
	for _, w := range ways {
		fmt.Printf("%-34s %12.0f %8.2f %8.2f %8.2f %6.2f\n", w.name, w.rate(), w.millis(50), w.millis(99), w.millis(99.9),
			w.rate()/ways[0].rate())
	}
	return nil
}

type way struct {
	name    string
	workers int
	*timings
	submit func(context.Context, commands.Command) error
}

// measureAll alternates the ways in a changing order, because each way bears the
// cost of Pebble's compactions for the way before it.
func (c *benchCommand) measureAll(ctx context.Context, ways []*way, providers []ledger.UUID) error {
	for range rounds {
		for _, i := range rand.Perm(len(ways)) {
			if err := c.measure(ctx, ways[i], providers); err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
		}
	}
	return nil
}

func prepare(ctx context.Context, allot *client.Client) (ids []ledger.UUID, err error) {
	for i := range providersToUse {
		id := ledger.UUID(uuid.New())
		ids = append(ids, id)
		_, err = allot.SubmitAtomic(ctx, commands.NewID(),
			&commands.CreateProvider{Provider: id, Name: fmt.Sprint("bench-", i)}, &commands.ReplaceInventories{
				Provider: id, Inventories: []commands.Inventory{{Class: "VCPU", Total: ledger.MaxAmount}},
			})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (c *benchCommand) measure(ctx context.Context, w *way, providers []ledger.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, c.Duration+time.Minute)
	defer cancel()
	end := time.Now().Add(c.Duration / rounds)
	return w.run(ctx, w.workers, func(int) bool { return time.Now().Before(end) }, func(ctx context.Context, n int) error {
		return w.submit(ctx, &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
			Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench",
			Resources: []commands.ProviderAllocation{{Provider: providers[n%len(providers)], Class: "VCPU", Amount: 1}},
		}}})
	})
}
