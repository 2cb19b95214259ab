package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/projector"
)

// benchCommand is "allot-bench commands": the same load through Writer.Submit in
// the process and over NATS, on a ledger of its own, durable, in one run.
type benchCommand struct {
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

type submitFunc func(context.Context, commands.Command) error

// Run prints a line for each way to submit, with its ratio to the first.
func (c *benchCommand) Run(ctx context.Context) error {
	return inFolder(c.Dir, func(folder string) error { return c.run(ctx, folder) })
}

func (c *benchCommand) run(ctx context.Context, folder string) (err error) {
	own, err := beginLedger(ctx, filepath.Join(folder, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	writer := own.writer
	providers, err := prepare(ctx, writer)
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
	ways := []*way{
		{name: "in the process", submit: submitTo(writer), workers: c.Clients, base: true},
		{name: "NATS alone, answered unread", submit: unread(nc), workers: c.Clients},
		{name: "NATS, msgpack, one per request", submit: over(encoding.TypeMsgpack), workers: c.Clients},
		{name: "NATS, JSON, one per request", submit: over(encoding.TypeJSON), workers: c.Clients},
		{name: "in the process, pipelined", submit: submitTo(writer), workers: c.Clients * c.Pipelined, base: true},
		{name: "NATS, msgpack, pipelined", submit: over(encoding.TypeMsgpack), workers: c.Clients * c.Pipelined},
		{name: "NATS, JSON, pipelined", submit: over(encoding.TypeJSON), workers: c.Clients * c.Pipelined},
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
		_, err = nc.RequestMsgWithContext(ctx, &nats.Msg{
			Subject: "$SRV.PING." + natsapi.ServiceName, Data: body, Header: nats.Header{
				wire.HeaderContentType: {encoding.TypeMsgpack}, wire.HeaderCommandID: {commands.NewID().String()},
			},
		})
		return err
	}
}

type way struct {
	name    string
	submit  submitFunc
	workers int
	base    bool // later ways are compared with it
	*timings
}

// measureAll alternates the ways in a changing order, because each way bears the
// cost of Pebble's compactions for the way before it.
func (c *benchCommand) measureAll(ctx context.Context, ways []*way, providers []ledger.UUID) error {
	for _, w := range ways {
		w.timings = newTimings()
	}
	for range rounds {
		for _, i := range rand.Perm(len(ways)) {
			if err := c.measure(ctx, ways[i], providers); err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
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
		fmt.Printf("%-34s %12.0f %8.2f %8.2f %8.2f %6.2f\n", w.name, w.rate(), w.millis(50), w.millis(99), w.millis(99.9),
			w.rate()/base)
	}
}

func submitTo(p *writer.Writer) submitFunc {
	return func(ctx context.Context, command commands.Command) error {
		outcome, err := p.Submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "bench", Command: command})
		if err == nil && outcome.Rejection != nil {
			err = errors.New(outcome.Rejection.String())
		}
		return err
	}
}

func prepare(ctx context.Context, p *writer.Writer) ([]ledger.UUID, error) {
	submit := submitTo(p)
	var ids []ledger.UUID
	for i := range providersToUse {
		id := ledger.UUID(uuid.New())
		ids = append(ids, id)
		err := submit(ctx, &commands.CreateProvider{Provider: id, Name: fmt.Sprint("bench-", i)})
		if err == nil {
			err = submit(ctx, &commands.ReplaceInventories{
				Provider: id, Inventories: []commands.Inventory{{Class: "VCPU", Total: ledger.MaxAmount}},
			})
		}
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

// ownLedger is a ledger in this process: its log, its read models, its writer, and the door over NATS.
type ownLedger struct {
	nats   *embedded.Server
	nc     *nats.Conn // of the log
	door   *nats.Conn
	api    *natsapi.Service
	views  *projector.Projector
	writer *writer.Writer
}

func beginLedger(ctx context.Context, dir string) (l *ownLedger, err error) {
	l = new(ownLedger)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	quiet := slog.New(slog.DiscardHandler)
	l.nats, err = embedded.Start(ctx, embedded.Config{
		StoreDir: filepath.Join(dir, datafolder.Log), Listen: "127.0.0.1:0", Logger: quiet,
		Services: wire.Services(), Door: wire.DoorPrefix, Streams: wire.Streams(),
	})
	if err != nil {
		return l, err
	}
	if l.nc, err = l.nats.Connect(); err != nil {
		return l, err
	}
	log, err := l.nats.OpenLog(ctx, l.nc, jetstream.Config{MayCreate: true})
	if err != nil {
		return l, err
	}
	if l.views, err = projector.Open(filepath.Join(dir, datafolder.ReadModels), quiet); err != nil {
		return l, err
	}
	options := writer.Options{Now: time.Now, Logger: quiet, AnswerWithin: time.Minute}
	l.writer = writer.New(log, l.views, ledger.NewState(), options)
	id := ledger.UUID(uuid.New())
	names, err := commands.NewAddStandardNames(id)
	if err == nil {
		err = submitTo(l.writer)(ctx, names)
	}
	if err != nil {
		return l, err
	}
	if l.door, err = l.nats.ConnectDoor(); err != nil {
		return l, err
	}
	l.api, err = natsapi.Start(l.door, natsapi.Config{
		Commands: l.writer, Version: cli.Version(), Actor: "nats:client", Logger: quiet,
		Queries: &natsapi.Queries{Views: l.views, Log: log, Notary: &present.Notary{Ledger: id}, MaxSteps: 1, Now: time.Now},
	})
	return l, err
}

func (l *ownLedger) close() (err error) {
	if l.api != nil {
		err = l.api.Stop()
	}
	if l.door != nil {
		l.door.Close()
	}
	if l.writer != nil {
		err = errors.Join(err, l.writer.Close())
	}
	if l.views != nil {
		err = errors.Join(err, l.views.Close())
	}
	if l.nc != nil {
		l.nc.Close()
	}
	if l.nats != nil {
		l.nats.Shutdown()
	}
	return err
}
