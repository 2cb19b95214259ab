package main_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestFollowers: notices reach followers once each, in order and without a gap,
// although the server is killed and started again, and one follower leaves in the
// middle and continues where it left off.
func TestFollowers(t *testing.T) {
	t.Parallel()
	data, address := t.TempDir(), freeAddress(t)
	s := launch(t, data, "--nats", address)
	connect := func() *client.Client {
		nc, err := nats.Connect(
			"nats://"+address, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
			nats.RetryOnFailedConnect(true),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return client.New(nc, client.Options{TryTimeout: time.Second})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(hang, cancel).Stop()
	writer := connect()
	provider := ledger.UUID(uuid.New())
	first, err := writer.Submit(ctx, &commands.CreateProvider{Provider: provider, Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Submit(ctx, &commands.ReplaceInventories{Provider: provider, Inventories: []commands.Inventory{{Class: "VCPU", Total: 1_000_000}}}); err != nil {
		t.Fatal(err)
	}
	steady, restless := newFollower(connect(), provider, first.Address), newFollower(connect(), provider, first.Address)
	var following sync.WaitGroup
	following.Go(func() { steady.follow(t, ctx) })
	following.Go(func() {
		for len(restless.addresses()) < rounds*perRound+1 && ctx.Err() == nil {
			short, stop := context.WithTimeout(ctx, 150*time.Millisecond)
			restless.follow(t, short)
			stop()
		}
	})
	for range rounds {
		var submitters sync.WaitGroup
		var submitted atomic.Int64
		for range 4 {
			submitters.Go(func() {
				for range perRound / 4 {
					c := &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
						Consumer: ledger.UUID(uuid.New()), Project: "a project.", User: "u",
						Resources: []commands.ProviderAllocation{{Provider: provider, Class: "VCPU", Amount: 1}},
					}}}
					if _, err := writer.Submit(ctx, c); err != nil {
						t.Error(err)
						return
					}
					submitted.Add(1)
				}
			})
		}
		ledgertest.WaitFor(t, "answers", func() bool { return submitted.Load() >= perRound/4 || t.Failed() })
		s.Kill()
		s = launch(t, data, "--nats", address)
		submitters.Wait()
	}
	told := func() int { return min(len(steady.addresses()), len(restless.addresses())) }
	ledgertest.WaitFor(t, fmt.Sprint(rounds*perRound+1, " records"), func() bool { return told() >= rounds*perRound+1 },
		func() any { return fmt.Sprintf("%d; the server:\n%s", told(), s.Logs) })
	cancel()
	following.Wait()
	want := wholeHistory(t, connect(), provider, first.Address)
	if len(want) != rounds*perRound+1 {
		t.Fatalf("%d records", len(want))
	}
	for name, f := range map[string]*followed{"steady": steady, "restless": restless} {
		if got := f.addresses(); !slices.Equal(got, want) {
			t.Errorf("%s was told of %d records, there are %d", name, len(got), len(want))
		}
	}
}

const (
	rounds   = 3
	perRound = 200
)

// followed is what a follower has been told.
type followed struct {
	c     *client.Client
	what  client.Following
	mu    sync.Mutex
	known []ledger.Address // guarded by mu
}

func newFollower(c *client.Client, provider ledger.UUID, after ledger.Address) *followed {
	return &followed{c: c, what: client.Following{Of: wire.OfProvider, Name: provider.String(), After: after}}
}

func (f *followed) addresses() []ledger.Address {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.known)
}

// follow continues where the last call ended.
func (f *followed) follow(t *testing.T, ctx context.Context) {
	err := f.c.Follow(ctx, f.what, func(n wire.Notice) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.known = append(f.known, n.Address)
		f.what.After = n.Address
		return nil
	})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, client.ErrUnanswered) {
		t.Errorf("a follower stopped: %v", err)
	}
}

func wholeHistory(t *testing.T, c *client.Client, provider ledger.UUID, after ledger.Address) []ledger.Address {
	t.Helper()
	var list []ledger.Address
	q := wire.HistoryQuery{Of: wire.OfProvider, Name: provider.String(), After: after.String(), Limit: 100, Brief: true}
	for {
		answer, err := c.History(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range answer.Result.Entries {
			address, err := ledger.ParseAddress(entry.Address)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, address)
		}
		if q.After = answer.Result.Next; q.After == "" {
			return list
		}
	}
}

// TestNoticesOnTheWire reads notices as any NATS client does.
func TestNoticesOnTheWire(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address)
	nc, err := nats.Connect("nats://"+address, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	all := make(chan *nats.Msg, 1000)
	if _, err := nc.ChanSubscribe("allot.notice.>", all); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s.makeProvider(10)
	s.Must(204, "PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocation())
	seen := make(map[string]*nats.Msg)
	for deadline := time.After(hang); len(seen) < 4; {
		select {
		case msg := <-all:
			for _, subject := range []string{
				"allot.notice.consumer.22222222-2222-4222-8222-222222222222", "allot.notice.project.p", "allot.notice.user.u",
				wire.HeartbeatSubject,
			} {
				if msg.Subject == subject {
					seen[subject] = msg
				}
			}
		case <-deadline:
			t.Fatalf("only %v", seen)
		}
	}
	msg := seen["allot.notice.consumer.22222222-2222-4222-8222-222222222222"]
	for header, want := range map[string]string{
		"ce-specversion": "1.0", "ce-type": "org.allot.record.AllocateForConsumers", "Content-Type": "application/json",
		"ce-subject": "consumer/22222222-2222-4222-8222-222222222222",
	} {
		if got := msg.Header.Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	for _, header := range []string{"ce-id", "ce-source", "ce-time"} {
		if msg.Header.Get(header) == "" {
			t.Errorf("no %s: %v", header, msg.Header)
		}
	}
	if err := nc.Publish("allot.notice.consumer.x", nil); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil || nc.LastError() == nil {
		t.Errorf("a client may publish notices: %v", fmt.Sprint(nc.LastError()))
	}
}
