package jetstream_test

import (
	"context"
	"errors"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// TestReadsTakeNothingOfTheStream: however a read ends, it leaves no consumer in
// the stream and no subscription on the connection.
func TestReadsTakeNothingOfTheStream(t *testing.T) {
	t.Parallel()
	_, nc := start(t, embedded.Config{})
	log := open(t, nc, true)
	for sequence := uint64(1); sequence <= 10; sequence++ {
		if err := appended(log, sequence); err != nil {
			t.Fatal(err)
		}
	}
	before := nc.NumSubscriptions()
	stop := errors.New("enough")
	ctx, cancel := context.WithCancel(context.Background())
	for range 300 { // of each
		if err := log.Read(ctx, 3, 3, ignore); err != nil {
			t.Fatal(err)
		}
		if err := log.Read(ctx, 1, 10, func(ledger.Entry) error { return stop }); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if caught := panics(func() { _ = log.Read(ctx, 1, 10, func(ledger.Entry) error { panic("stop") }) }); caught != "stop" {
			t.Fatal(caught)
		}
	}
	cancel()
	if err := log.Read(ctx, 1, 11, ignore); !errors.Is(err, context.Canceled) && !errors.Is(err, ledger.ErrLogBehind) {
		t.Errorf("canceled: %v", err)
	}
	api, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := api.Stream(context.Background(), jetstream.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers were left behind", n)
	}
	// The client's own inbox for replies may have been made meanwhile.
	if n := nc.NumSubscriptions(); n > before+2 {
		t.Errorf("%d subscriptions, %d before", n, before)
	}
}

func ignore(ledger.Entry) error { return nil }

func panics(run func()) (caught any) {
	defer func() { caught = recover() }()
	run()
	return nil
}
