package natsapi_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// TestFlood: while one client floods the service, another one with one request at
// a time is never refused. Requests beyond the bounds are refused, and every
// request is answered.
func TestFlood(t *testing.T) {
	d := open(t)
	const flood, steps = 20_000, 50
	flooder, err := nats.Connect(d.client.ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	defer flooder.Close()
	inbox := nats.NewInbox()
	var done, refused atomic.Int64
	sub, err := flooder.Subscribe(inbox+".*", func(msg *nats.Msg) {
		var reply wire.Reply
		if err := json.Unmarshal(msg.Data, &reply); err != nil {
			t.Errorf("%s: %v", msg.Data, err)
		}
		if reply.Error != nil {
			if reply.Error.Code != wire.ErrorUnavailable || !reply.Error.Retry || reply.Error.RetryAfterMS == 0 {
				t.Errorf("%+v", reply.Error)
			}
			refused.Add(1)
		}
		done.Add(1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	var flooding sync.WaitGroup
	flooding.Go(func() { pour(t, flooder, inbox, flood) })
	for i := range steps {
		reply := d.ask(t, "CreateTrait", headers(wire.TypeJSON), fmt.Appendf(nil, `{"name":"CUSTOM_STEP_%d"}`, i))
		if reply.Error != nil || reply.Rejection != nil {
			t.Fatalf("step %d: %+v", i, reply)
		}
	}
	flooding.Wait()
	for deadline := time.Now().Add(5 * time.Minute); done.Load() < flood && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if done.Load() != flood {
		t.Errorf("%d of %d requests were answered", done.Load(), flood)
	}
	made := 0
	classes := d.Views.View()
	err = classes.Traits(func(trait *ledger.Trait) bool {
		if len(trait.Name) > 13 && trait.Name[:13] == "CUSTOM_FLOOD_" {
			made++
		}
		return true
	})
	if err != nil || made != flood-int(refused.Load()) {
		t.Errorf("%d made, %d refused of %d, %v", made, refused.Load(), flood, err)
	}
	t.Logf("%d of %d were refused", refused.Load(), flood)
}

// pour sends commands without waiting for answers.
func pour(t *testing.T, nc *nats.Conn, inbox string, n int) {
	for i := range n {
		msg := nats.NewMsg("allot.command.CreateTrait")
		msg.Reply = fmt.Sprintf("%s.%d", inbox, i)
		msg.Data = fmt.Appendf(nil, `{"name":"CUSTOM_FLOOD_%d"}`, i)
		msg.Header.Set(wire.HeaderCommandID, uuid.NewString())
		if err := nc.PublishMsg(msg); err != nil {
			t.Error(err)
			return
		}
	}
	if err := nc.FlushTimeout(5 * time.Minute); err != nil {
		t.Error(err)
	}
}
