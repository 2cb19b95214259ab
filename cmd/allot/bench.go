package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// benchCommand is "allot bench": the same load through Processor.Submit in
// the process and over NATS, on a ledger of its own, durable, in one run.
type benchCommand struct {
	Dir       string        `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
	Clients   int           `help:"Clients at a time." default:"64"`
	Pipelined int           `help:"Commands under way per client in the pipelined runs." default:"16"`
	Duration  time.Duration `help:"How long each run takes." default:"5s"`
	Providers int           `help:"Providers that allocations go to." default:"100"`
}

// submitFunc carries one command out.
type submitFunc func(context.Context, commands.Command) error

// Run prints a line per way to submit, with its ratio to the first.
func (c *benchCommand) Run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(c.Dir, "allot-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := &serveCommand{Data: filepath.Join(dir, "data"), HTTP: "127.0.0.1:0", NATS: "127.0.0.1:0", SnapshotRecords: 0, CandidatesBudget: 1}
	n := &node{config: config, log: slog.New(slog.DiscardHandler)}
	if err := n.start(ctx); err != nil {
		return errors.Join(err, n.stop())
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	providers, err := c.prepare(ctx, n.writer)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(n.natsURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	over := func(encoding string) submitFunc {
		allot := client.New(nc, client.Options{Encoding: encoding})
		return func(ctx context.Context, command commands.Command) error {
			_, err := allot.Submit(ctx, command)
			return err
		}
	}
	var inProcess float64
	fmt.Printf("%-34s %12s %8s %8s %8s %6s\n", "", "commands/s", "p50 ms", "p99 ms", "p99.9 ms", "ratio")
	for _, way := range []struct {
		name    string
		submit  submitFunc
		workers int
	}{
		{"in the process", submitTo(n.writer), c.Clients},
		{"NATS, msgpack, one per request", over(wire.TypeMsgpack), c.Clients},
		{"NATS, JSON, one per request", over(wire.TypeJSON), c.Clients},
		{"in the process, pipelined", submitTo(n.writer), c.Clients * c.Pipelined},
		{"NATS, msgpack, pipelined", over(wire.TypeMsgpack), c.Clients * c.Pipelined},
		{"NATS, JSON, pipelined", over(wire.TypeJSON), c.Clients * c.Pipelined},
	} {
		rate, latency, err := c.measure(ctx, way.submit, way.workers, providers)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if way.name == "in the process" || way.name == "in the process, pipelined" {
			inProcess = rate
		}
		ms := func(q float64) float64 { return float64(latency.ValueAtQuantile(q)) / 1000 }
		fmt.Printf("%-34s %12.0f %8.2f %8.2f %8.2f %6.2f\n", way.name, rate, ms(50), ms(99), ms(99.9), rate/inProcess)
	}
	return nil
}

// submitTo submits in the process.
func submitTo(p *commands.Processor) submitFunc {
	return func(ctx context.Context, command commands.Command) error {
		outcome, err := p.Submit(ctx, commands.Submission{ID: ledger.UUID(uuid.New()), Actor: "bench", Command: command})
		if err == nil && outcome.Rejection != nil {
			err = errors.New(outcome.Rejection.String())
		}
		return err
	}
}

func (c *benchCommand) prepare(ctx context.Context, p *commands.Processor) ([]ledger.UUID, error) {
	submit := submitTo(p)
	var ids []ledger.UUID
	for i := range c.Providers {
		id := ledger.UUID(uuid.New())
		ids = append(ids, id)
		err := submit(ctx, &commands.CreateProvider{Provider: id, Name: fmt.Sprint("bench-", i)})
		if err == nil {
			err = submit(ctx, &commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{{Class: "VCPU", Total: ledger.MaxAmount}}})
		}
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Latencies are kept from a microsecond to a minute, to three digits.
const (
	shortestMicros, longestMicros = 1, 60_000_000
	digits                        = 3
)

func (c *benchCommand) measure(ctx context.Context, submit submitFunc, workers int, providers []ledger.UUID) (float64, *hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Duration+time.Minute)
	defer cancel()
	total := hdrhistogram.New(shortestMicros, longestMicros, digits)
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	begun := time.Now()
	for w := range workers {
		all.Go(func() {
			mine := hdrhistogram.New(shortestMicros, longestMicros, digits)
			var err error
			for i := w; err == nil && time.Since(begun) < c.Duration; i += workers {
				start := time.Now()
				err = submit(ctx, &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
					Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench",
					Resources: []commands.ProviderAllocation{{Provider: providers[i%len(providers)], Class: "VCPU", Amount: 1}},
				}}})
				if err == nil {
					err = mine.RecordValue(max(shortestMicros, time.Since(start).Microseconds()))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.Merge(mine)
			failure = errors.Join(failure, err)
		})
	}
	all.Wait()
	return float64(total.TotalCount()) / time.Since(begun).Seconds(), total, failure
}
