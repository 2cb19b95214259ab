package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
)

// plainServer is a NATS server that lets every client do anything.
func plainServer(t *testing.T) *natsserver.Server {
	t.Helper()
	return serve(t, &natsserver.Options{JetStream: true, StoreDir: t.TempDir()})
}

// serve runs a NATS server until the test ends.
func serve(t *testing.T, options *natsserver.Options) *natsserver.Server {
	t.Helper()
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", natsserver.RANDOM_PORT, true, true
	ns := ledgertest.Must(natsserver.NewServer(options))
	go ns.Start()
	if !ns.ReadyForConnections(hangLimit) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(ns.Shutdown)
	return ns
}

// hangLimit is the time after which an operation counts as hanging.
const hangLimit = 2 * time.Minute

// distant is a log behind a network with faults, and the same log without.
type distant struct {
	proxy     *logtest.Proxy
	nc        *nats.Conn // behind the proxy
	log, near *jetstream.Log
}

// startDistant starts both. Behind the network the log waits for answers only for
// limit.
func startDistant(t *testing.T, limit time.Duration) *distant {
	t.Helper()
	ns := plainServer(t)
	d := &distant{proxy: logtest.StartProxy(t, strings.TrimPrefix(ns.ClientURL(), "nats://"))}
	d.nc = dial(t, "nats://"+d.proxy.Address(), jetstream.LogConnection()...)
	cfg := jetstream.Config{MayCreate: true, AckTimeout: hangLimit, Patience: hangLimit}
	near := dial(t, ns.ClientURL(), jetstream.LogConnection()...)
	d.near = ledgertest.Must(jetstream.Open(context.Background(), near, cfg))
	cfg.AckTimeout, cfg.Patience = limit, limit
	d.log = ledgertest.Must(jetstream.Open(context.Background(), d.nc, cfg))
	return d
}

// dial connects until the test ends.
func dial(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc := ledgertest.Must(nats.Connect(url, append(options, quietly)...))
	t.Cleanup(nc.Close)
	return nc
}

// quietly leaves out what the connection says of itself.
var quietly = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// fill appends entries of some size, not through the network.
func (d *distant) fill(t *testing.T, from, to uint64, size int) {
	t.Helper()
	results := make(chan error, to-from+1)
	for sequence := from; sequence <= to; sequence++ {
		d.near.Append(sequence, []byte(fmt.Sprintf("%0*d", size, sequence)), func(err error) { results <- err })
	}
	for range cap(results) {
		ledgertest.OK(t, <-results)
	}
}

// within runs something that must end by itself, and returns its error.
func within(t *testing.T, what string, run func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(hangLimit):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

// TestSuiteBehindABadNetwork: faults that only take time change nothing.
func TestSuiteBehindABadNetwork(t *testing.T) {
	for name, faults := range map[string]logtest.Faults{
		"late answers":    {Delay: 20 * time.Millisecond},
		"slow, in pieces": {Delay: time.Millisecond, Piece: 700},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDistant(t, hangLimit)
			d.proxy.Set(faults)
			logtest.Run(t, d.log, d.near)
		})
	}
}

// TestSilenceIsNoGap: when a network falls silent, in both directions or in one,
// every call ends within its time, with the error that the log is out of reach.
// When the network is back, so is the log.
func TestSilenceIsNoGap(t *testing.T) {
	for name, faults := range map[string]logtest.Faults{
		"silent": logtest.Silence, "answers are lost": {SilentIn: true}, "requests are lost": {SilentOut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDistant(t, time.Second)
			d.fill(t, 1, 3000, 100)
			calls := map[string]func(context.Context) error{
				"Last": func(ctx context.Context) error { _, err := d.log.Last(ctx); return err },
				"Read": func(ctx context.Context) error {
					return d.log.Read(ctx, 1, 3000, func(ledger.Entry) error { return nil })
				},
				"Read begun": func(ctx context.Context) error {
					return d.log.Read(ctx, 1, 3000, func(e ledger.Entry) error {
						if e.Sequence == 100 {
							d.proxy.Set(faults)
						}
						return nil
					})
				},
				"Open": func(ctx context.Context) error {
					_, err := jetstream.Open(ctx, d.nc, jetstream.Config{MayCreate: true, Patience: time.Second})
					return err
				},
			}
			for what, call := range calls {
				d.proxy.Heal()
				if err := within(t, what, func() error { return d.wholeLog(3000) }); err != nil {
					t.Fatalf("before %s: %v", what, err)
				}
				if what != "Read begun" {
					d.proxy.Set(faults)
				}
				for _, limit := range []time.Duration{500 * time.Millisecond, hangLimit} {
					err := within(t, what, func() error {
						ctx, cancel := context.WithTimeout(context.Background(), limit)
						defer cancel()
						return call(ctx)
					})
					if !errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrLogGap) {
						t.Errorf("%s within %v: %v", what, limit, err)
					}
				}
			}
			err := within(t, "Append", func() error { return appended(d.log, 3001) })
			if !errors.Is(err, ledger.ErrUnknownFate) {
				t.Errorf("Append: %v", err)
			}
			d.proxy.Heal()
			ledgertest.OK(t, within(t, "healing", func() error { return d.wholeLog(3000) }))
		})
	}
}

func appended(log ledger.Log, sequence uint64) error {
	return ledgertest.Append(log, sequence, []byte("late"))
}

// wholeLog reads everything through the network, and tries again as long as that
// is out of reach.
func (d *distant) wholeLog(want uint64) error {
	for {
		next := uint64(1)
		err := d.log.Read(context.Background(), 1, want, ledgertest.InOrder(&next, func(e ledger.Entry) bool {
			return strings.HasSuffix(string(e.Data), fmt.Sprint(e.Sequence))
		}))
		if err == nil && next != want+1 {
			return fmt.Errorf("%d entries were read", next-1)
		}
		if !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
	}
}

// TestReadsSurviveCuts: connections that break in the middle of a message, or are
// reset again and again, cost a reader only time.
func TestReadsSurviveCuts(t *testing.T) {
	t.Parallel()
	d := startDistant(t, hangLimit)
	d.fill(t, 1, 2000, 1000)
	for _, cut := range []int{300_000, 500_001, 777_777} {
		d.proxy.Set(logtest.Faults{CutIn: cut})
		if err := within(t, "reading", func() error { return d.wholeLog(2000) }); err != nil {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
	d.proxy.Heal()
	resets := 0
	err := within(t, "reading", func() error {
		return d.log.Read(context.Background(), 1, 2000, func(e ledger.Entry) error {
			if e.Sequence%500 == 250 {
				resets++
				d.proxy.Reset()
			}
			return nil
		})
	})
	if err != nil || resets != 4 {
		t.Errorf("after %d resets: %v", resets, err)
	}
}

// TestGapIsFound: a message that the stream says it does not have is a gap.
func TestGapIsFound(t *testing.T) {
	t.Parallel()
	nc := dial(t, plainServer(t).ClientURL())
	api := ledgertest.Must(js.New(nc))
	ctx := context.Background()
	cfg := js.StreamConfig{
		Name: jetstream.DefaultStream, Subjects: []string{jetstream.Subject}, Storage: js.FileStorage, DenyPurge: true,
		AllowDirect: true,
	}
	stream, err := api.CreateStream(ctx, cfg)
	ledgertest.OK(t, err)
	for range 5 {
		ledgertest.Must(api.Publish(ctx, jetstream.Subject, []byte("commit")))
	}
	ledgertest.OK(t, stream.DeleteMsg(ctx, 3))
	cfg.DenyDelete = true
	ledgertest.Must(api.UpdateStream(ctx, cfg))
	log := open(t, nc, false)
	if _, err := log.Last(ctx); !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("last: %v", err)
	}
	read := uint64(0)
	err = log.Read(ctx, 1, 5, func(e ledger.Entry) error { read = e.Sequence; return nil })
	if !errors.Is(err, ledger.ErrLogGap) || read != 2 {
		t.Errorf("read up to %d: %v", read, err)
	}
}
