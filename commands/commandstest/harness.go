// Package commandstest runs a writer with real read models for tests, over
// any log.
package commandstest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/placing"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// Ledger is a running writer with its stores.
type Ledger struct {
	Dir       string
	Log       ledger.Log
	Views     *projector.Projector
	Snapshots *snapshots.Store
	Writer    *writer.Writer
	Claims    *placing.Stage

	mu       sync.Mutex
	rejected []commands.Rejected // guarded by mu
}

// Rejected lists the commands that were rejected so far.
func (l *Ledger) Rejected() []commands.Rejected {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rejected)
}

func (l *Ledger) reject(r commands.Rejected) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rejected = append(l.rejected, r)
}

// Start restores a ledger in dir from a log and starts its writer.
func Start(t testing.TB, dir string, log ledger.Log) *Ledger {
	t.Helper()
	return StartWith(t, dir, log, func(*writer.Options) {})
}

// StartWith is Start with other options.
func StartWith(t testing.TB, dir string, log ledger.Log, change func(*writer.Options)) *Ledger {
	t.Helper()
	l := Must(open(dir, log, change))
	t.Cleanup(func() { l.Stop(t) })
	return l
}

func open(dir string, log ledger.Log, change func(*writer.Options)) (*Ledger, error) {
	quiet := slog.New(slog.DiscardHandler)
	views, err := projector.Open(filepath.Join(dir, "readmodel"), quiet)
	if err != nil {
		return nil, err
	}
	snaps, err := snapshots.Open(filepath.Join(dir, "snapshots"), quiet)
	if err != nil {
		return nil, err
	}
	state, err := writer.Restore(context.Background(), log, snaps, views, nil, nil, nil)
	if err != nil {
		_ = views.Close() // the error before is the one that counts
		return nil, err
	}
	l := &Ledger{Dir: dir, Log: log, Views: views, Snapshots: snaps}
	l.Claims = placing.New(placing.Options{Views: views, Log: log})
	options := writer.Options{Now: time.Now, Logger: quiet, Rejected: l.reject, Search: l.Claims.Search}
	change(&options)
	l.Writer = writer.New(log, views, state, options)
	begin, err := commands.NewAddStandardNames(NewID())
	if err == nil {
		_, err = l.Writer.Submit(
			context.Background(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: begin},
		)
	}
	return l, err
}

// Stop stops the writer and closes the read models. It may be called twice.
func (l *Ledger) Stop(t testing.TB) {
	t.Helper()
	if l.Views == nil {
		return
	}
	l.Claims.Stop()
	if err := l.Writer.Close(); err != nil {
		t.Errorf("the writer stopped: %v", err)
	}
	if err := l.Views.Close(); err != nil {
		t.Errorf("the read models did not close: %v", err)
	}
	l.Views = nil
}

// Remove stops the ledger and removes its files, of which a test with many ledgers would have gigabytes.
func (l *Ledger) Remove(t testing.TB) {
	t.Helper()
	l.Stop(t)
	ledgertest.OK(t, os.RemoveAll(l.Dir))
}

func init() { uuid.EnableRandPool() } // benchmarks must not measure the kernel's generator

// NewID returns a random id.
func NewID() ledger.UUID { return ledger.UUID(uuid.New()) }

// Submit carries a command out under a new id. It fails the test on an error.
func (l *Ledger) Submit(t testing.TB, c commands.Command) commands.Outcome {
	t.Helper()
	outcome, err := l.Writer.Submit(
		context.Background(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: c},
	)
	if err != nil {
		t.Fatalf("%s: %v", commands.NameOf(c), err)
	}
	return outcome
}

// Accept is Submit for commands that must be accepted.
func (l *Ledger) Accept(t testing.TB, c commands.Command) ledger.Address {
	t.Helper()
	outcome := l.Submit(t, c)
	if outcome.Rejection != nil {
		t.Fatalf("%s: %s", commands.NameOf(c), outcome.Rejection)
	}
	return outcome.Address
}

// Provider makes a provider with inventories.
func (l *Ledger) Provider(t testing.TB, name string, inventories ...commands.Inventory) ledger.UUID {
	t.Helper()
	id := NewID()
	l.Accept(t, &commands.CreateProvider{Provider: id, Name: name})
	l.Accept(t, &commands.ReplaceInventories{Provider: id, Inventories: inventories})
	return id
}

// Providers makes so many providers, host-0 and so on, each with inventories, in one commit.
func (l *Ledger) Providers(t testing.TB, count int, inventories ...commands.Inventory) []ledger.UUID {
	t.Helper()
	all, ids := &commands.Batch{}, make([]ledger.UUID, count)
	for i := range ids {
		ids[i] = NewID()
		all.Commands = append(all.Commands,
			&commands.CreateProvider{Provider: ids[i], Name: fmt.Sprint("host-", i)},
			&commands.ReplaceInventories{Provider: ids[i], Inventories: inventories})
	}
	l.Accept(t, all)
	return ids
}

// Allocate returns a command that gives a new consumer an amount of one class.
func Allocate(consumer, provider ledger.UUID, class string, amount int64) *commands.AllocateForConsumers {
	return &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
		Consumer: consumer, Project: "project", User: "user",
		Resources: []commands.ProviderAllocation{{Provider: provider, Class: class, Amount: amount}},
	}}}
}

// JetStream starts an embedded NATS server and opens its log.
func JetStream(t testing.TB, dir string, lazy bool) (*jetstream.Log, *embedded.Server) {
	t.Helper()
	ns, nc := logtest.StartNATS(t, embedded.Config{
		StoreDir: filepath.Join(dir, "log"),
		LazySync: lazy, Listen: "127.0.0.1:0", Services: wire.Services(), Door: wire.DoorPrefix, Streams: wire.Streams(),
	})
	return logtest.OpenLog(t, nc, jetstream.Config{MayCreate: true}), ns
}

// CheckReplay rebuilds the read models from the log and compares every byte.
func CheckReplay(t testing.TB, l *Ledger) {
	t.Helper()
	before := Must(l.Views.Digest())
	again := Start(t, t.TempDir(), l.Log)
	after := Must(again.Views.Digest())
	if before != after {
		t.Errorf("read models built one by one have digest %s, rebuilt ones %s", before, after)
	}
}

// Must is the value of a call that fails in no test.
func Must[T any](value T, err error) T { return ledgertest.Must(value, err) }
