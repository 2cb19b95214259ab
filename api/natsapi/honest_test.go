package natsapi_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
)

// crowded is a door whose line always seems long, as if others filled it.
type crowded struct{ *natsapi.Service }

func (c crowded) Unseen() int { return c.Service.Unseen() + 10_000 }

// TestHonestIsNotCutOff: a client that has as many requests under way as may wait
// for it, and sends one for each answer, is answered all the time and never cut
// off, while the line to the door is long. One that does not wait is.
func TestHonestIsNotCutOff(t *testing.T) {
	t.Parallel()
	l, ns, nc := connectDoor(t)
	svc, err := natsapi.Start(nc, configOf(l, natsapi.Config{CutOff: ns.CutOff}))
	if err != nil {
		t.Fatal(err)
	}
	ns.WatchDoor(crowded{svc})
	defer func() {
		ns.WatchDoor(nil)
		if err := svc.Stop(); err != nil {
			t.Error(err)
		}
	}()
	connect := func(options ...nats.Option) *nats.Conn {
		nc, err := nats.Connect(ns.ClientURL(), options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	const underWay, all = 4096, 20_000
	honest := connect(nats.NoReconnect())
	for _, subject := range []string{"allot.query.Usages", "$SRV.PING.allot"} {
		var sent, answered, refused atomic.Int64
		done := make(chan struct{})
		inbox := nats.NewInbox()
		ask := func() {
			if sent.Add(1) > all {
				return
			}
			if err := honest.PublishRequest(subject, inbox, []byte(`{"project":"p"}`)); err != nil {
				t.Error(err)
			}
		}
		sub, err := honest.Subscribe(inbox, func(m *nats.Msg) {
			if strings.Contains(string(m.Data), `"error"`) {
				refused.Add(1)
			}
			ask()
			if answered.Add(1) == all {
				close(done)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for range underWay {
			ask()
		}
		select {
		case <-done:
		case <-honest.StatusChanged(nats.CLOSED):
			t.Fatalf("%s: cut off after %d answers", subject, answered.Load())
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s: %d answers to %d requests", subject, answered.Load(), min(sent.Load(), all))
		}
		if n := refused.Load(); n > 0 {
			t.Errorf("%s: %d are refused", subject, n)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
	greedy := connect(nats.NoReconnect())
	gone := greedy.StatusChanged(nats.CLOSED)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		select {
		case <-gone:
			return
		default:
		}
		_ = greedy.Publish("allot.query.Usages", nil) // it is cut off
		if time.Now().After(deadline) {
			t.Fatal("who does not wait for answers is not cut off")
		}
	}
}
