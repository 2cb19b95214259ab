package jetstream_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/logtest"
)

func start(t *testing.T, cfg embedded.Config) (*embedded.Server, *nats.Conn) {
	t.Helper()
	cfg.StoreDir = filepath.Join(t.TempDir(), "log")
	cfg.Listen = "127.0.0.1:0"
	return logtest.StartNATS(t, cfg)
}

func open(t *testing.T, nc *nats.Conn, create bool) *jetstream.Log {
	t.Helper()
	return logtest.OpenLog(t, nc, jetstream.Config{MayCreate: create})
}

func TestLog(t *testing.T) {
	ns, nc := start(t, embedded.Config{})
	second, err := ns.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	logtest.Run(t, open(t, nc, true), open(t, second, false))
}

func TestMissingStreamIsNotCreated(t *testing.T) {
	_, nc := start(t, embedded.Config{})
	if _, err := jetstream.Open(context.Background(), nc, jetstream.Config{}); !errors.Is(err, jetstream.ErrNoStream) {
		t.Errorf("got %v", err)
	}
}

// TestUnsafeStreamsAreRefused opens streams that would lose commits.
func TestUnsafeStreamsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*js.StreamConfig){
		"memory":   func(c *js.StreamConfig) { c.Storage = js.MemoryStorage },
		"limit":    func(c *js.StreamConfig) { c.MaxMsgs = 10 },
		"age":      func(c *js.StreamConfig) { c.MaxAge = time.Hour },
		"delete":   func(c *js.StreamConfig) { c.DenyDelete = false },
		"purge":    func(c *js.StreamConfig) { c.DenyPurge = false },
		"subjects": func(c *js.StreamConfig) { c.Subjects = []string{"other"} },
		"direct":   func(c *js.StreamConfig) { c.AllowDirect = false },
	} {
		t.Run(name, func(t *testing.T) {
			_, nc := start(t, embedded.Config{})
			api, err := js.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			cfg := js.StreamConfig{
				Name: jetstream.DefaultStream, Subjects: []string{jetstream.Subject},
				Storage: js.FileStorage, DenyDelete: true, DenyPurge: true, AllowDirect: true,
			}
			spoil(&cfg)
			if _, err := api.CreateStream(context.Background(), cfg); err != nil {
				t.Fatal(err)
			}
			if _, err := jetstream.Open(context.Background(), nc, jetstream.Config{}); !errors.Is(err, ledger.ErrLogUnsafe) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCheckSync asks real servers: one that syncs always, and one that does not.
func TestCheckSync(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		ns, _ := start(t, embedded.Config{Monitor: "127.0.0.1:0", LazySync: lazy})
		_, err := jetstream.CheckSync(context.Background(), []string{ns.MonitorURL()})
		if lazy != errors.Is(err, ledger.ErrLogUnsafe) || !lazy && err != nil {
			t.Errorf("lazy %v: %v", lazy, err)
		}
	}
	if _, err := jetstream.CheckSync(context.Background(), nil); !errors.Is(err, ledger.ErrLogUnsafe) {
		t.Errorf("nobody asked: %v", err)
	}
}

// TestCheckSyncOfMany: a server that is down does not count as one that syncs
// lazily, as long as a majority answers.
func TestCheckSyncOfMany(t *testing.T) {
	url := func(lazy bool) string {
		ns, _ := start(t, embedded.Config{Monitor: "127.0.0.1:0", LazySync: lazy})
		return ns.MonitorURL()
	}
	one, two, lazy, away := url(false), url(false), url(true), "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		monitors []string
		unsafe   bool
		away     int
	}{
		"all": {[]string{one, two}, false, 0}, "one of three away": {[]string{one, away, two}, false, 1},
		"two of three away": {[]string{one, away, away + "2"}, true, 2}, "one of three lazy": {[]string{one, two, lazy}, true, 0},
	} {
		found, err := jetstream.CheckSync(context.Background(), c.monitors)
		if c.unsafe != errors.Is(err, ledger.ErrLogUnsafe) || !c.unsafe && err != nil || len(found.Away) != c.away {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

// TestClientsCannotTouchTheLog tries what only the writer may do. JetStream
// answers a denied request with silence, so the test checks the log itself.
func TestClientsCannotTouchTheLog(t *testing.T) {
	ns, nc := start(t, embedded.Config{})
	log := open(t, nc, true)
	result := make(chan error, 1)
	log.Append(1, []byte("commit"), func(err error) { result <- err })
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	denied := make(chan error, 16)
	client, err := nats.Connect(
		ns.ClientURL(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	attempts := map[string]string{
		jetstream.Subject: "forged", jetstream.RejectedSubject: "forged",
		"$JS.API.STREAM.PURGE." + jetstream.DefaultStream:      "",
		"$JS.API.STREAM.DELETE." + jetstream.DefaultStream:     "",
		"$JS.API.STREAM.MSG.DELETE." + jetstream.DefaultStream: `{"seq":1}`,
		"$JS.API.STREAM.UPDATE." + jetstream.DefaultStream:     `{"name":"ALLOT","max_msgs":1}`,
	}
	for subject, body := range attempts {
		if err := client.Publish(subject, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := client.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if _, err := client.SubscribeSync(jetstream.Subject); err == nil {
		if err := client.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("subscribe: %v", err)
		}
	}
	var data string
	last, err := log.Last(context.Background())
	if err == nil {
		err = log.Read(context.Background(), 1, last, func(e ledger.Entry) error { data += string(e.Data); return nil })
	}
	if err != nil || data != "commit" {
		t.Errorf("the log holds %q, %v", data, err)
	}
}

// TestCreatedAtOnce: of several servers that begin a log at once one makes its stream.
func TestCreatedAtOnce(t *testing.T) {
	_, nc := start(t, embedded.Config{})
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
