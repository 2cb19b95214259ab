package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger/jetstream"
)

// What a start makes sure of may change while the server runs: a server of the
// log's stream is started again with lazy syncs, an operator edits the stream.
// Nothing that was acknowledged is lost by that yet, and to end would help
// nobody. So it is told: in the log, in a metric, and by allot cluster status.

// findings are why what is acknowledged may be lost.
type findings struct {
	list atomic.Pointer[[]string]
	stop context.CancelFunc
	idle sync.WaitGroup
}

func (f *findings) get() []string {
	if list := f.list.Load(); list != nil {
		return *list
	}
	return nil
}

// watchWait bounds one look.
const watchWait = 30 * time.Second

func (s *server) startWatch(context.Context) error {
	if s.config.WatchEvery <= 0 {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	s.unsafe.stop = stop
	s.unsafe.idle.Go(func() {
		for {
			s.watch(ctx)
			select {
			case <-time.After(s.config.WatchEvery):
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func (s *server) stopWatch() error {
	if s.unsafe.stop != nil {
		s.unsafe.stop()
		s.unsafe.idle.Wait()
	}
	return nil
}

// watch looks once, and tells what has changed.
func (s *server) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	found, err := s.findUnsafe(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.logger.Debug("whether the log is safe is not known now", "error", err)
		}
		return
	}
	if s.replica != nil {
		if state, err := s.replica.Fork(ctx); err == nil && s.sameLedger(state) != nil {
			s.parts.fail(s.sameLedger(state))
		}
	}
	before := s.unsafe.get()
	s.unsafe.list.Store(&found)
	for _, reason := range found {
		if !slices.Contains(before, reason) {
			s.logger.Warn("what is acknowledged may be lost", "because", reason)
		}
	}
	for _, reason := range before {
		if !slices.Contains(found, reason) {
			s.logger.Info("what made the log unsafe has passed", "was", reason)
		}
	}
}

// findUnsafe looks at all that a start looks at. What does not answer says
// nothing, and what was found before stays.
func (s *server) findUnsafe(ctx context.Context) (found []string, err error) {
	replicas := s.replicas()
	if !s.config.Cluster.on() && s.config.NATSReplicas == 0 {
		replicas = max(s.log.stream.Replicas(), 1) // as it was at the start
	}
	if found, err = s.log.stream.Safe(ctx, replicas, s.log.values); err != nil {
		return nil, err
	}
	if s.config.LazySync {
		found = append(found, "this server does not sync every write (--lazy-sync)")
	}
	return append(found, s.lazyServers(ctx)...), nil
}

// lazyServers are those of an external NATS that do not sync each write, and of
// a cluster those that say so of themselves.
func (s *server) lazyServers(ctx context.Context) (found []string) {
	if s.log.nats == nil && len(s.config.NATSMonitor) > 0 {
		// One that is away is not one that syncs lazily.
		if _, err := jetstream.CheckSync(ctx, s.config.NATSMonitor); errors.Is(err, jetstream.ErrLazy) {
			found = append(found, err.Error())
		}
	}
	if s.replica == nil {
		return found
	}
	for _, m := range s.replica.Others(ctx) {
		if m.Lazy {
			found = append(found, fmt.Sprintf("the server %s does not sync every write (--lazy-sync)", m.Name))
		}
	}
	slices.Sort(found)
	return found
}
