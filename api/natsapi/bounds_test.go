package natsapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHeaderLimits: every header has a bound, may occur once and must be text, and all headers together have a bound.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	d := open(t)
	before := d.Views.Checkpoint()
	send := func(set func(nats.Header)) *wire.Error {
		t.Helper()
		msg := &nats.Msg{Subject: "allot.command.CreateTrait", Header: nats.Header{}, Data: []byte(`{"name":"CUSTOM_X"}`)}
		for key, value := range headers(encoding.TypeJSON) {
			msg.Header.Set(key, value)
		}
		set(msg.Header)
		var reply wire.Reply
		answer, err := d.client.RequestMsg(msg, 5*time.Minute)
		if err == nil {
			err = json.Unmarshal(answer.Data, &reply)
		}
		ledgertest.OK(t, err)
		return reply.Error
	}
	refused := func(what string, set func(nats.Header)) {
		t.Helper()
		if failure := send(set); failure == nil || failure.Code != wire.ErrorBadRequest {
			t.Errorf("%s: %v", what, failure)
		}
	}
	for _, name := range []string{
		wire.HeaderContentType, wire.HeaderCommandID, wire.HeaderRequestID, wire.HeaderDryRun, wire.HeaderDeadline,
	} {
		limit := wire.HeaderLimits[name]
		refused(name+" is long", func(h nats.Header) { h.Set(name, strings.Repeat("x", limit+1)) })
		refused(name+" is very long", func(h nats.Header) { h.Set(name, strings.Repeat("x", 100<<10)) })
		refused(name+" is there twice", func(h nats.Header) { h.Set(name, "x"); h.Add(name, "x") })
		refused(name+" is no text", func(h nats.Header) { h.Set(name, "x\xff") })
		refused(name+" has a control character", func(h nats.Header) { h.Set(name, "x\x00") })
	}
	refused("another header is long", func(h nats.Header) { h.Set("X", strings.Repeat("x", wire.MaxHeaderBytes)) })
	refused("there are many headers", func(h nats.Header) {
		for i := range 5000 {
			h.Set(fmt.Sprint("X-", i), "x")
		}
	})
	if after := d.Views.Checkpoint(); after != before {
		t.Error("something was recorded")
	}
	if failure := send(func(h nats.Header) { h.Set(wire.HeaderRequestID, strings.Repeat("x", 255)) }); failure != nil {
		t.Errorf("a request id of 255 bytes: %v", failure)
	}
}

// TestQueriesOfThePastHaveAPlace: what is asked of the past waits for a place of its kind, as long as
// its client does, and the present is answered meanwhile.
func TestQueriesOfThePastHaveAPlace(t *testing.T) {
	t.Parallel()
	pool := fair.NewPoolOf(4, 1)
	d := openWith(t, natsapi.Config{Now: time.Now, Fair: pool})
	other, err := pool.Long(t.Context(), "other")
	ledgertest.OK(t, err)
	answered := func(body string, within time.Duration) bool {
		t.Helper()
		deadline := map[string]string{wire.HeaderDeadline: time.Now().UTC().Add(within).Format(time.RFC3339Nano)}
		answer, _ := d.request(t, "allot.query.Usages", deadline, body)
		return answer.Header.Get("Nats-Service-Error") == ""
	}
	const past, present = `{"project":"p","at":"1"}`, `{"project":"p"}`
	if answered(past, 300*time.Millisecond) || !answered(present, time.Minute) {
		t.Error("the past is read without a place, or the present waits for the past")
	}
	other.End()
	if !answered(past, time.Minute) {
		t.Error("the past is not read with a place")
	}
}

// TestWaitingTakesNoPlace: queries that wait for something that may never come hold up no other client.
func TestWaitingTakesNoPlace(t *testing.T) {
	t.Parallel()
	d := open(t)
	waiter := dial(t, d.client.ConnectedUrl())
	const flood = 5100
	inbox := nats.NewInbox()
	for range flood {
		ledgertest.OK(t, waiter.PublishRequest("allot.query.Usages", inbox, []byte(`{"project":"p","min_sequence":1000000}`)))
	}
	if err := waiter.FlushTimeout(time.Minute); err != nil { // a busy machine takes seconds
		t.Fatal(err)
	}
	for range 100 {
		if answer, _ := d.request(t, "allot.query.Usages", nil, `{"project":"p"}`); strings.Contains(string(answer.Data), "error") {
			t.Fatalf("%s", answer.Data)
		}
	}
	// A query goes on as soon as its sequence can be read.
	reached := make(chan error, 1)
	go func() {
		answer, err := d.client.Request("allot.query.Usages",
			fmt.Appendf(nil, `{"project":"p","min_sequence":%d}`, d.Views.Checkpoint().Sequence+1), time.Minute)
		if err == nil && strings.Contains(string(answer.Data), "error") {
			err = fmt.Errorf("%s", answer.Data)
		}
		reached <- err
	}()
	if reply := d.ask(t, "CreateTrait", headers(encoding.TypeJSON), `{"name":"CUSTOM_X"}`); reply.Sequence == 0 {
		t.Errorf("%+v", reply)
	}
	ledgertest.OK(t, <-reached)
}
