package main_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// TestFollower: notices reach a follower once each, in order and without a gap, although it leaves in the middle and
// continues where it left off, and the server is killed and started again.
func TestFollower(t *testing.T) {
	t.Parallel()
	data, address, ctx := t.TempDir(), freeAddress(t), patiently(t)
	s := launch(t, data, "--nats", address)
	nc := dial(t, "nats://"+address, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	c := client.New(nc, client.Options{TryTimeout: time.Second})
	provider := ledger.UUID(uuid.New())
	first, err := c.Submit(ctx, &commands.CreateProvider{Provider: provider, Name: "p"})
	must(t, err)
	const half, leaveAfter = 200, 70
	var told, want []ledger.Address
	var following sync.WaitGroup
	following.Go(func() {
		what := client.Following{Of: wire.OfProvider, Name: provider.String(), After: first.Address}
		leaves := errors.New("it leaves")
		for len(told) < 2*half && ctx.Err() == nil {
			err := c.Follow(ctx, what, func(n wire.Notice) error {
				told, what.After = append(told, n.Address), n.Address
				if len(told)%leaveAfter == 0 || len(told) == 2*half {
					return leaves
				}
				return nil
			})
			if !errors.Is(err, leaves) && !errors.Is(err, client.ErrUnanswered) {
				t.Errorf("a follower stopped: %v", err)
			}
		}
	})
	for range 2 {
		var sent []*client.Pending
		for i := range half {
			sent = append(sent, c.Start(ctx, &commands.RenameProvider{Provider: provider, Name: fmt.Sprint(len(want) + i)}))
		}
		for i, one := range sent {
			result, err := one.Wait()
			must(t, err)
			if want = append(want, result.Address); i == half/4 {
				s.Kill()
				s = launch(t, data, "--nats", address)
			}
		}
	}
	following.Wait()
	slices.SortFunc(want, func(a, b ledger.Address) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Index, b.Index))
	})
	if !slices.Equal(told, want) {
		t.Errorf("of %d records a follower was told of %d: %v\n%v", len(want), len(told), told, want)
	}
}

// TestNoticesOnTheWire reads notices as any NATS client does.
func TestNoticesOnTheWire(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address)
	nc, err := nats.Connect("nats://"+address, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(t, err)
	defer nc.Close()
	all := make(chan *nats.Msg, 1000)
	if _, err := nc.ChanSubscribe("allot.notice.>", all); err != nil {
		t.Fatal(err)
	}
	must(t, nc.Flush())
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
	must(t, nc.Publish("allot.notice.consumer.x", nil))
	if err := nc.Flush(); err != nil || nc.LastError() == nil {
		t.Errorf("a client may publish notices: %v", fmt.Sprint(nc.LastError()))
	}
}
