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
		results := make([]chan ledger.Address, half)
		for i := range results {
			results[i] = make(chan ledger.Address, 1)
			rename := &commands.RenameProvider{Provider: provider, Name: fmt.Sprint(len(want) + i)}
			go func() {
				result, err := c.Submit(ctx, rename)
				if err != nil {
					t.Error(err)
				}
				results[i] <- result.Address
			}()
		}
		for i, one := range results {
			if want = append(want, <-one); i == half/4 {
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
	s := launchUnguarded(t)
	nc := s.connect()
	all, err := nc.SubscribeSync("allot.notice.>")
	must(t, err)
	must(t, nc.Flush())
	s.makeProvider(10)
	s.Must(204, "PUT", "/allocations/"+consumerID(2), allocation())
	wanted := []string{consumerNotice + consumerID(2), "allot.notice.project.p", "allot.notice.user.u", wire.HeartbeatSubject}
	for len(wanted) > 0 {
		msg, err := all.NextMsg(hang)
		must(t, err)
		wanted = slices.DeleteFunc(wanted, func(subject string) bool { return subject == msg.Subject })
		if msg.Subject == consumerNotice+consumerID(2) {
			says(t, fmt.Sprint(msg.Header), "ce-specversion:[1.0]", "ce-type:[org.allot.record.AllocateForConsumers]",
				"Content-Type:[application/json]", "ce-subject:[consumer/"+consumerID(2)+"]", "ce-id:[", "ce-source:[", "ce-time:[")
		}
	}
}
