package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestFollowWaitsForTheServer: a follower that begins while the server is away waits
// for it as long as its context allows, which is longer than one try.
func TestFollowWaitsForTheServer(t *testing.T) {
	nc, err := nats.Connect("nats://"+ledgertest.FreeAddress(t), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	c := client.New(nc, client.Options{TryTimeout: 10 * time.Millisecond})
	err = c.Follow(ctx, client.Following{Of: wire.OfProject, Name: "p"}, func(wire.Notice) error { return nil })
	if ctx.Err() == nil {
		t.Errorf("it gave up: %v", err)
	}
}
