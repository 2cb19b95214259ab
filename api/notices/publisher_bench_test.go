package notices_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// BenchmarkFollowers commits as fast as it goes, without followers and with
// 100, each of which follows a project of its own; every sixth command is
// about one of those. Compare commands/s, and look at notices/s.
func BenchmarkFollowers(b *testing.B) {
	for _, followers := range []int{0, 100} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) { benchFollowers(b, followers) })
	}
}

// share is how many commands there are for each notice: with some 60,000 a
// second that makes 10,000 notices.
const share = 6

func benchFollowers(b *testing.B, followers int) {
	dir := b.TempDir()
	log, ns := commandstest.JetStream(b, dir, false)
	l := commandstest.Start(b, dir, log)
	provider := l.Provider(b, "p", commands.Inventory{Class: "VCPU", Total: ledger.MaxAmount})
	nc, err := ns.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	state := ledger.NewState()
	err = ledger.ReadCommits(b.Context(), log, ledger.Head{}, l.Views.Checkpoint().Sequence, func(c *ledger.Commit) error {
		_, err := state.Fold(c)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Processor.Close(); err != nil {
		b.Fatal(err)
	}
	publisher := notices.Start(l.Views, notices.Config{Conn: nc, Ledger: state.LedgerID(), Interest: ns.Interest, Listening: func() bool { return ns.Listening(wire.NoticePrefix) }, Logger: slog.New(slog.DiscardHandler)})
	b.Cleanup(publisher.Stop)
	l.Processor = commands.NewProcessor(log, publisher, state, commands.Options{Now: time.Now})
	svc, err := natsapi.Start(nc, natsapi.Config{
		Commands: l.Processor, Version: "0.0.1", Actor: "bench", Logger: slog.New(slog.DiscardHandler),
		Queries: &natsapi.Queries{Views: l.Views, Log: log, Now: time.Now},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = svc.Stop() }) // the benchmark has ended
	var told atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	for i := range followers {
		conn, err := nats.Connect(ns.ClientURL())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(conn.Close)
		following.Go(func() {
			err := client.New(conn, client.Options{}).Follow(ctx, client.Following{Of: wire.OfProject, Name: fmt.Sprint("p", i)}, func(wire.Notice) error {
				told.Add(1)
				return nil
			})
			if ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	time.Sleep(500 * time.Millisecond) // until all follow
	var next atomic.Int64
	b.ResetTimer()
	var work sync.WaitGroup
	for range 256 {
		work.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				c := commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1)
				c.Allocations[0].Project = "other"
				if n%share == 0 {
					c.Allocations[0].Project = fmt.Sprint("p", n/share%100)
				}
				l.Accept(b, c)
			}
		})
	}
	work.Wait()
	elapsed := b.Elapsed().Seconds()
	for deadline := time.Now().Add(20 * time.Second); followers > 0 && told.Load() < int64(b.N)/share && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(b.N)/elapsed, "commands/s")
	b.ReportMetric(float64(told.Load())/b.Elapsed().Seconds(), "notices/s")
	b.ReportMetric(0, "ns/op")
	if followers > 0 && told.Load() != int64(b.N)/share {
		b.Errorf("%d notices of %d", told.Load(), int64(b.N)/share)
	}
	cancel()
	following.Wait()
}
