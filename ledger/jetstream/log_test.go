package jetstream_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
)

func start(t *testing.T) (*embedded.Server, *nats.Conn) {
	t.Helper()
	return logtest.StartNATS(t, embedded.Config{StoreDir: filepath.Join(t.TempDir(), "log")})
}

func open(t *testing.T, nc *nats.Conn, create bool) *jetstream.Log {
	t.Helper()
	return logtest.OpenLog(t, nc, jetstream.Config{MayCreate: create})
}

func TestLog(t *testing.T) {
	ns, nc := start(t)
	second := ledgertest.Must(ns.Connect())
	defer second.Close()
	logtest.Run(t, open(t, nc, true), open(t, second, false))
}

// TestUnsafeStreamsAreRefused: a missing stream is not made without permission, and one that would lose commits, of
// which TestEverySettingIsJudged has all, is not opened.
func TestUnsafeStreamsAreRefused(t *testing.T) {
	_, nc := start(t)
	if _, err := jetstream.Open(context.Background(), nc, jetstream.Config{}); !errors.Is(err, jetstream.ErrNoStream) {
		t.Errorf("there is none: %v", err)
	}
	api, err := js.New(nc)
	ledgertest.OK(t, err)
	_, err = api.CreateStream(context.Background(), js.StreamConfig{
		Name: jetstream.DefaultStream, Subjects: []string{jetstream.Subject}, Storage: js.FileStorage, MaxMsgs: 10,
		DenyDelete: true, DenyPurge: true, AllowDirect: true,
	})
	ledgertest.OK(t, err)
	if _, err := jetstream.Open(context.Background(), nc, jetstream.Config{}); !errors.Is(err, ledger.ErrLogUnsafe) {
		t.Errorf("got %v", err)
	}
}

// TestCreatedAtOnce: of several servers that begin a log at once one makes its stream.
func TestCreatedAtOnce(t *testing.T) {
	_, nc := start(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := jetstream.Open(t.Context(), nc, jetstream.Config{MayCreate: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestReadsTakeNothingOfTheStream: however a read ends, it leaves no consumer in
// the stream and no subscription on the connection.
func TestReadsTakeNothingOfTheStream(t *testing.T) {
	t.Parallel()
	_, nc := start(t)
	log := open(t, nc, true)
	for sequence := uint64(1); sequence <= 10; sequence++ {
		ledgertest.OK(t, appended(log, sequence))
	}
	before := nc.NumSubscriptions()
	stop := errors.New("enough")
	ctx, cancel := context.WithCancel(context.Background())
	for range 300 { // of each
		ledgertest.OK(t, log.Read(ctx, 3, 3, ignore))
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
	api := ledgertest.Must(js.New(nc))
	stream := ledgertest.Must(api.Stream(context.Background(), jetstream.DefaultStream))
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
