package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
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

// largeReshape is a command that takes more than clients may send over NATS.
func largeReshape(t testing.TB) commands.Command {
	t.Helper()
	c := &commands.Reshape{}
	for data := []byte(nil); len(data) <= 2*embedded.DefaultPayload; {
		for range 1000 {
			one := commandstest.Allocate(commandstest.NewID(), commandstest.NewID(), "VCPU", 1).Allocations[0]
			one.User = strings.Repeat("u", 255)
			c.Allocations = append(c.Allocations, one)
		}
		var err error
		if data, err = encoding.Encode(c, encoding.TypeMsgpack); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestTooLarge: what is more than the server takes over NATS is an error that
// says where it can go, from the first moment of a connection on, and the
// connection stays. Independent commands travel in as many messages as it takes.
func TestTooLarge(t *testing.T) {
	l, first := serve(t, false)
	large := largeReshape(t)
	for range 20 { // the server says what it takes after the connection is there
		nc, err := nats.Connect(first.ConnectedUrl())
		if err != nil {
			t.Fatal(err)
		}
		c := client.New(nc, client.Options{})
		for what, call := range map[string]func() error{
			"a command":       func() error { _, err := c.Submit(within(t), large); return err },
			"an atomic batch": func() error { _, err := c.SubmitAtomic(within(t), commandstest.NewID(), large); return err },
			"a dry run":       func() error { _, err := c.DryRun(within(t), large); return err },
		} {
			if err := call(); !errors.Is(err, nats.ErrMaxPayload) || !strings.Contains(err.Error(), "over REST") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := c.Usages(within(t), wire.UsagesQuery{Project: "p"}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		nc.Close()
	}
	c := client.New(first, client.Options{})
	var items []client.Item
	add := func(c commands.Command) { items = append(items, client.Item{ID: commandstest.NewID(), Command: c}) }
	for range 500 {
		add(commandstest.Allocate(commandstest.NewID(), commandstest.NewID(), "VCPU", 1)) // there is no such provider
	}
	add(large)
	for range 500 {
		provider := commandstest.NewID()
		add(&commands.CreateProvider{Provider: provider, Name: strings.Repeat("p", 100) + provider.String()})
	}
	results, err := c.SubmitAll(within(t), items)
	if err != nil {
		t.Fatal(err)
	}
	addresses := make(map[ledger.Address]bool)
	for i, one := range results {
		want := "<nil>"
		switch {
		case i < 500:
			want = string(demand.CodeProviderUnknown)
		case i == 500:
			want = wire.ErrorTooLarge
		default:
			addresses[one.Address] = true
		}
		if codeOf(one.Err) != want {
			t.Errorf("%d: %v", i, one.Err)
		}
	}
	if n := len(addresses); n != 500 {
		t.Errorf("%d records", n)
	}
	made := 0
	if err := l.Views.View().Providers(func(*ledger.Provider) bool { made++; return true }); err != nil || made != 500 {
		t.Errorf("%d providers, %v", made, err)
	}
}
