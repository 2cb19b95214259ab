package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
)

// benchCommand is "allot-bench commands": the same load through Writer.Submit in
// the process and over NATS, on a ledger of its own, durable, in one run.
type benchCommand struct {
	Dir       string        `help:"Folder for the ledger, on the disk to be measured; emptied afterwards." type:"path" default:"."`
	Clients   int           `help:"Number of clients." default:"64" least:"1"`
	Pipelined int           `help:"Commands under way for each client, in the pipelined runs." default:"16" least:"1"`
	Duration  time.Duration `help:"How long to measure each way of submitting." default:"6s" least:"10ms"`
	Rounds    int           `help:"Number of turns into which that time is divided. The ways alternate, so that the growing ledger slows all of them alike." default:"6" least:"1"`
	Providers int           `help:"Number of providers to allocate from." default:"100" least:"1"`
}

// submitFunc carries one command out.
type submitFunc func(context.Context, commands.Command) error

// Run prints a line for each way to submit, with its ratio to the first.
func (c *benchCommand) Run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(c.Dir, "allot-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	own, err := beginLedger(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	writer := own.writer
	providers, err := c.prepare(ctx, writer)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(own.nats.ClientURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	over := func(contentType string) submitFunc {
		allot := client.New(nc, client.Options{Encoding: contentType})
		return func(ctx context.Context, command commands.Command) error {
			_, err := allot.Submit(ctx, command)
			return err
		}
	}
	pipelined := func(contentType string) submitFunc {
		allot := client.New(nc, client.Options{Encoding: contentType})
		return func(ctx context.Context, command commands.Command) error {
			_, err := allot.Start(ctx, command).Wait()
			return err
		}
	}
	ways := []*way{
		{name: "in the process", submit: submitTo(writer), workers: c.Clients, base: true},
		{name: "NATS alone, answered unread", submit: unread(nc), workers: c.Clients},
		{name: "NATS, msgpack, one per request", submit: over(encoding.TypeMsgpack), workers: c.Clients},
		{name: "NATS, JSON, one per request", submit: over(encoding.TypeJSON), workers: c.Clients},
		{name: "in the process, pipelined", submit: submitTo(writer), workers: c.Clients * c.Pipelined, base: true},
		{name: "NATS, msgpack, pipelined", submit: pipelined(encoding.TypeMsgpack), workers: c.Clients * c.Pipelined},
		{name: "NATS, JSON, pipelined", submit: pipelined(encoding.TypeJSON), workers: c.Clients * c.Pipelined},
	}
	if err := c.measureAll(ctx, ways, providers); err != nil {
		return err
	}
	printWays(ways)
	return nil
}

// unread sends commands to the subject on which the NATS service answers pings.
// It measures the cost of a request and a reply alone.
func unread(nc *nats.Conn) submitFunc {
	return func(ctx context.Context, command commands.Command) error {
		body, err := encoding.Encode(command, encoding.TypeMsgpack)
		if err != nil {
			return err
		}
		_, err = nc.RequestMsgWithContext(
			ctx,
			&nats.Msg{Subject: "$SRV.PING." + natsapi.ServiceName, Data: body, Header: nats.Header{
				wire.HeaderContentType: {encoding.TypeMsgpack}, wire.HeaderCommandID: {commands.NewID().String()},
			}},
		)
		return err
	}
}

// way is a way to submit, and its measurements.
type way struct {
	name    string
	submit  submitFunc
	workers int
	base    bool // later ways are compared with it
	latency *hdrhistogram.Histogram
	took    time.Duration
}

func (w *way) rate() float64 { return float64(w.latency.TotalCount()) / w.took.Seconds() }

// measureAll alternates the ways in a changing order, because each way bears the
// cost of Pebble's compactions for the way before it.
func (c *benchCommand) measureAll(ctx context.Context, ways []*way, providers []ledger.UUID) error {
	for _, w := range ways {
		w.latency = hdrhistogram.New(shortestMicros, longestMicros, digits)
	}
	for range max(1, c.Rounds) {
		for _, i := range rand.Perm(len(ways)) {
			w := ways[i]
			if err := c.measure(ctx, w, c.Duration/time.Duration(max(1, c.Rounds)), providers); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

func printWays(ways []*way) {
	fmt.Printf("%-34s %12s %8s %8s %8s %6s\n", "", "commands/s", "p50 ms", "p99 ms", "p99.9 ms", "ratio")
	var base float64
	for _, w := range ways {
		if w.base {
			base = w.rate()
		}
		ms := func(q float64) float64 { return float64(w.latency.ValueAtQuantile(q)) / 1000 }
		fmt.Printf("%-34s %12.0f %8.2f %8.2f %8.2f %6.2f\n", w.name, w.rate(), ms(50), ms(99), ms(99.9), w.rate()/base)
	}
}

// submitTo submits in the process.
func submitTo(p *writer.Writer) submitFunc {
	return func(ctx context.Context, command commands.Command) error {
		outcome, err := p.Submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "bench", Command: command})
		if err == nil && outcome.Rejection != nil {
			err = errors.New(outcome.Rejection.String())
		}
		return err
	}
}

func (c *benchCommand) prepare(ctx context.Context, p *writer.Writer) ([]ledger.UUID, error) {
	submit := submitTo(p)
	var ids []ledger.UUID
	for i := range c.Providers {
		id := ledger.UUID(uuid.New())
		ids = append(ids, id)
		err := submit(ctx, &commands.CreateProvider{Provider: id, Name: fmt.Sprint("bench-", i)})
		if err == nil {
			err = submit(
				ctx,
				&commands.ReplaceInventories{
					Provider: id, Inventories: []commands.Inventory{{Class: "VCPU", Total: ledger.MaxAmount}},
				},
			)
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

// measure submits one way for some time.
func (c *benchCommand) measure(ctx context.Context, w *way, duration time.Duration, providers []ledger.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, duration+time.Minute)
	defer cancel()
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	begun := time.Now()
	for worker := range w.workers {
		all.Go(func() {
			mine := hdrhistogram.New(shortestMicros, longestMicros, digits)
			var err error
			for i := worker; err == nil && time.Since(begun) < duration; i += w.workers {
				start := time.Now()
				err = w.submit(ctx, &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
					Consumer: ledger.UUID(uuid.New()), Project: "bench", User: "bench",
					Resources: []commands.ProviderAllocation{{Provider: providers[i%len(providers)], Class: "VCPU", Amount: 1}},
				}}})
				if err == nil {
					err = mine.RecordValue(max(shortestMicros, time.Since(start).Microseconds()))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			w.latency.Merge(mine)
			failure = errors.Join(failure, err)
		})
	}
	all.Wait()
	w.took += time.Since(begun)
	return failure
}
