package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
)

// TestPipeline starts commands from many goroutines at once, in both encodings. Each is carried
// out once, whatever answers are lost, and gets its own answer, accepted or not, and the first
// answer again under the same id.
func TestPipeline(t *testing.T) {
	l, nc := serve(t, true)
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 500})
	for _, encoding := range []string{encoding.TypeMsgpack, encoding.TypeJSON} {
		c := client.New(nc, client.Options{Encoding: encoding, Pause: time.Millisecond})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				var started []*client.Pending
				var ids []ledger.UUID
				for range 100 {
					id := commandstest.NewID()
					ids = append(ids, id)
					started = append(started, c.StartAs(within(t), id, commandstest.Allocate(id, provider, "VCPU", 1)))
				}
				for i, p := range started {
					result, err := p.Wait()
					var rejected *client.RejectedError
					if err != nil && !errors.As(err, &rejected) {
						t.Error(err)
						return
					}
					held, found, failure := l.Views.View().Consumer(ids[i])
					if failure != nil || found != (err == nil) || found && held.Generation != result.Address.Sequence {
						t.Errorf("consumer %s: %v, but the answer was %+v, %v", ids[i], found, result, err)
					}
				}
				again, err := c.StartAs(within(t), ids[0], commandstest.Allocate(ids[0], provider, "VCPU", 1)).Wait()
				if first, rejection := started[0].Wait(); rejection == nil &&
					(err != nil || !again.Repeated || again.Address != first.Address) {
					t.Errorf("again: %+v, %v; first: %+v", again, err, first)
				}
			})
		}
		all.Wait()
	}
	p, found, err := l.Views.View().Provider(provider)
	if err != nil || !found || p.Inventories[0].Used != 500 {
		t.Errorf("%d of 500 are used, %v", p.Inventories[0].Used, err)
	}
}

// TestPipelineLimits: a command whose context has ended is answered at once,
// commands that are too much for one message together travel apart, and one that
// is by itself says so.
func TestPipelineLimits(t *testing.T) {
	l, nc := serve(t, false)
	c := client.New(nc, client.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Start(ended, &commands.CreateTrait{Name: "CUSTOM_LATE"}).Wait()
	if !errors.Is(err, client.ErrUnanswered) || !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 1 << 20})
	var started []*client.Pending
	for range 12 {
		wide := &commands.AllocateForConsumers{}
		for range 300 {
			one := commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1).Allocations[0]
			one.User = strings.Repeat("u", 255)
			wide.Allocations = append(wide.Allocations, one)
		}
		started = append(started, c.Start(within(t), wide))
	}
	for _, p := range started {
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Start(within(t), largeReshape(t)).Wait()
	if codeOf(err) != wire.ErrorTooLarge || !strings.Contains(err.Error(), "over REST") {
		t.Errorf("too large by itself: %v", err)
	}
}
