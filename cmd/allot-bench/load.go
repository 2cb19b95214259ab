package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
)

// Latencies are kept from a microsecond to a minute, to three digits.
const (
	shortestMicros, longestMicros = 1, 60_000_000
	digits                        = 3
)

// timings is how long each thing took, and all of them together.
type timings struct {
	mu      sync.Mutex
	latency *hdrhistogram.Histogram
	took    time.Duration
}

func newTimings() *timings {
	return &timings{latency: hdrhistogram.New(shortestMicros, longestMicros, digits)}
}

func (t *timings) record(begun time.Time) error {
	passed := min(longestMicros, max(shortestMicros, time.Since(begun).Microseconds()))
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latency.RecordValue(passed)
}

func (t *timings) rate() float64 { return float64(t.latency.TotalCount()) / t.took.Seconds() }

// millis is the longest that so many of a hundred took.
func (t *timings) millis(quantile float64) float64 {
	return float64(t.latency.ValueAtQuantile(quantile)) / 1000
}

// row is a line of a table: the rate, the median and the slowest of a hundred.
func (t *timings) row(name string) string {
	return fmt.Sprintf("%-24s %10.0f %9.2f %9.2f", name, t.rate(), t.millis(50), t.millis(99))
}

// run has workers do things by their numbers, each as soon as it is done with the one before,
// while there is another. The first that fails ends it.
func (t *timings) run(
	ctx context.Context, workers int, another func(n int) bool, do func(ctx context.Context, n int) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range workers {
		all.Go(func() {
			for n := int(next.Add(1) - 1); another(n) && ctx.Err() == nil; n = int(next.Add(1) - 1) {
				start := time.Now()
				if err := errors.Join(do(ctx, n), t.record(start)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	t.took += time.Since(begun)
	return context.Cause(ctx)
}

func below(count int) func(int) bool { return func(n int) bool { return n < count } }

// connect returns clients with a connection each, and what closes these.
func connect(url string, count int) (clients []*client.Client, closeAll func(), err error) {
	var connections []*nats.Conn
	closeAll = func() {
		for _, nc := range connections {
			nc.Close()
		}
	}
	for range count {
		nc, err := nats.Connect(url, nats.MaxReconnects(-1))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		connections = append(connections, nc)
		clients = append(clients, client.New(nc, client.Options{TryTimeout: time.Minute}))
	}
	return clients, closeAll, nil
}

func isRejection(err error) bool {
	rejection := (*client.RejectedError)(nil)
	return errors.As(err, &rejection)
}

func inFolder(dir string, measure func(folder string) error) error {
	folder, err := os.MkdirTemp(dir, "allot-bench-")
	if err != nil {
		return err
	}
	return errors.Join(measure(folder), os.RemoveAll(folder))
}
