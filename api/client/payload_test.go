package client_test

import (
	"errors"
	"strings"
	"testing"

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
