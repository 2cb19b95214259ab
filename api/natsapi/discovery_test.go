package natsapi_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/commands/commandstest"
)

// TestUnseen: the door knows exactly how many messages it has not looked at,
// whatever has come: requests that are answered, refused or passed over, and
// discovery, which the library answers. Who discovers again and again is cut off.
func TestUnseen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, ns := commandstest.JetStream(t, dir, false)
	l := commandstest.Start(t, dir, log)
	nc, err := ns.ConnectDoor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	cut := make(chan uint64, 100)
	var clock, step atomic.Int64 // each look at the clock takes a step
	start := func() *natsapi.Service {
		svc, err := natsapi.Start(nc, natsapi.Config{
			Commands: l.Writer, Version: "0.0.1", Actor: "nats:client", Logger: slog.New(slog.DiscardHandler),
			Queries: &natsapi.Queries{Views: l.Views, MaxSteps: 50_000_000, Now: time.Now},
			CutOff:  func(connection uint64) { cut <- connection },
			Now:     func() time.Time { return time.Unix(1000, clock.Add(step.Load())) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return svc
	}
	client, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for range 2 { // a second time on the same connection
		svc := start()
		step.Store(int64(50 * time.Millisecond)) // fewer than too many in a second
		for i := range 20 {
			for _, subject := range []string{
				"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.INFO.allot", "$SRV.PING.allot", "$SRV.INFO.other", "$SRV.PING.allot.x", "$SRV.x",
				"allot.query.Usages", "allot.query.Provider", "allot.batch", "allot.command.CreateTrait",
			} {
				body := make([]byte, []int{0, 10, 100_000}[i%3])
				if err := client.PublishRequest(subject, nats.NewInbox(), body); err != nil {
					t.Fatal(err)
				}
				if err := client.Publish(subject, body); err != nil { // nobody is told
					t.Fatal(err)
				}
			}
		}
		if _, err := client.Request("allot.query.Usages", []byte(`{"project":"p"}`), time.Minute); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); svc.Unseen() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d are unseen", svc.Unseen())
			}
		}
		for range 1000 { // a ping costs no more than any request: see allot bench
			if err := client.Publish("$SRV.PING", nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.Request("$SRV.PING.allot", nil, time.Minute); err != nil || len(cut) > 0 {
			t.Fatalf("pings: %v, %d cut off", err, len(cut))
		}
		step.Store(0)
		for range 200 {
			if err := client.Publish("$SRV.STATS", nil); err != nil {
				t.Fatal(err)
			}
		}
		id, err := client.GetClientID()
		if err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-cut:
			if got != id {
				t.Errorf("cut off %d, not %d", got, id)
			}
		case <-time.After(time.Minute):
			t.Error("nobody is cut off")
		}
		if err := svc.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
