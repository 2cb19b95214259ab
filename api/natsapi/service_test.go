package natsapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger/embedded"
)

type door struct {
	*commandstest.Ledger
	client  *nats.Conn
	service *natsapi.Service
}

// connectDoor starts a ledger over JetStream, and connects to it as the service
// that answers clients does.
func connectDoor(t *testing.T) (*commandstest.Ledger, *embedded.Server, *nats.Conn) {
	t.Helper()
	dir := t.TempDir()
	log, ns := commandstest.JetStream(t, dir, false)
	l := commandstest.Start(t, dir, log)
	nc, err := ns.ConnectDoor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return l, ns, nc
}

func open(t *testing.T) door {
	t.Helper()
	return openAt(t, time.Now)
}

// openAt opens a door with a clock.
func openAt(t *testing.T, now func() time.Time) door {
	t.Helper()
	return openWith(t, natsapi.Config{Now: now})
}

// configOf fills in what a configuration leaves to the service of a ledger.
func configOf(l *commandstest.Ledger, cfg natsapi.Config) natsapi.Config {
	if cfg.Commands == nil {
		cfg.Commands = l.Writer
	}
	cfg.Version, cfg.Actor, cfg.Logger = "0.0.1", "nats:client", slog.New(slog.DiscardHandler)
	cfg.Queries = &natsapi.Queries{Views: l.Views, MaxSteps: 50_000_000, Now: time.Now}
	return cfg
}

// openWith opens a door as configOf says.
func openWith(t *testing.T, cfg natsapi.Config) door {
	t.Helper()
	l, ns, nc := connectDoor(t)
	svc, err := natsapi.Start(nc, configOf(l, cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return door{l, client, svc}
}

// ask sends a request and decodes the reply by its content type.
func (d door) ask(t *testing.T, name string, header map[string]string, body []byte) wire.Reply {
	t.Helper()
	msg := nats.NewMsg(wire.CommandPrefix + "." + name)
	msg.Data = body
	for key, value := range header {
		msg.Header.Set(key, value)
	}
	answer, err := d.client.RequestMsg(msg, 5*time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var reply wire.Reply
	if err := encoding.Decode(answer.Data, answer.Header.Get(wire.HeaderContentType), &reply); err != nil {
		t.Fatalf("%s: %v in %q", name, err, answer.Data)
	}
	failed := reply.Error != nil || reply.Rejection != nil
	if failed != (answer.Header.Get("Nats-Service-Error") != "") {
		t.Errorf("%s: headers %v, reply %+v", name, answer.Header, reply)
	}
	d.checkHeld(t, answer, reply.Sequence)
	return reply
}

// checkHeld tests that a reply says which commit it holds: its own one, if it has
// one, and one that can be read.
func (d door) checkHeld(t *testing.T, answer *nats.Msg, own uint64) {
	t.Helper()
	held, err := strconv.ParseUint(answer.Header.Get(wire.HeaderSequence), 10, 64)
	if err != nil || held == 0 || own > 0 && held != own || held > d.Views.Checkpoint().Sequence {
		t.Errorf("holds %q of %d: %s", answer.Header.Get(wire.HeaderSequence), d.Views.Checkpoint().Sequence, answer.Data)
	}
}

// TestEveryReplyTellsSequence: the replies that other tests do not look at.
func TestEveryReplyTellsSequence(t *testing.T) {
	d := open(t)
	id, provider := commandstest.NewID(), commandstest.NewID()
	batch := fmt.Sprintf(`{"commands":[{"command":"DeleteTrait","id":"%s","body":{"name":"CUSTOM_NO"}}]}`, id)
	for subject, body := range map[string]string{
		wire.BatchSubject:                  batch,
		wire.QueryPrefix + ".Usages":       `{"project":"p"}`,
		wire.QueryPrefix + ".Node":         fmt.Sprintf(`{"node":"%s"}`, provider), // there is none
		wire.QueryPrefix + ".Allocations":  `{`,
		wire.CommandPrefix + ".Reshape":    `[]`,
		wire.QueryPrefix + ".Candidates":   `{"groups":[{"resources":{"VCPU":1}}]}`,
		wire.CommandPrefix + ".DeleteNode": fmt.Sprintf(`{"node":"%s"}`, provider),
	} {
		msg := nats.NewMsg(subject)
		msg.Data = []byte(body)
		msg.Header.Set(wire.HeaderCommandID, commandstest.NewID().String())
		answer, err := d.client.RequestMsg(msg, 5*time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		d.checkHeld(t, answer, 0)
	}
}

func headers(contentType string) map[string]string {
	return map[string]string{
		wire.HeaderContentType: contentType, wire.HeaderCommandID: commandstest.NewID().String(),
	}
}

// TestPlainTexts: a text in a reply in JSON is as it was sent.
func TestPlainTexts(t *testing.T) {
	d := open(t)
	msg := nats.NewMsg(wire.CommandPrefix + ".CreateResourceClass")
	msg.Data = []byte(`{"name":"a<b>&c"}`)
	for key, value := range headers(encoding.TypeJSON) {
		msg.Header.Set(key, value)
	}
	answer, err := d.client.RequestMsg(msg, 5*time.Minute)
	if err != nil || !strings.Contains(string(answer.Data), "a<b>&c") {
		t.Errorf("%s, %v", answer.Data, err)
	}
}

func TestBadRequests(t *testing.T) {
	d := open(t)
	before := d.Views.Checkpoint()
	huge := append([]byte{0x81, 0xa4, 'n', 'a', 'm', 'e'}, 0xdb, 0xff, 0xff, 0xff, 0xff)
	for name, c := range map[string]struct {
		header map[string]string
		body   string
	}{
		"no id":           {map[string]string{}, `{"name":"CUSTOM_X"}`},
		"nil id":          {map[string]string{wire.HeaderCommandID: "00000000-0000-0000-0000-000000000000"}, `{"name":"CUSTOM_X"}`},
		"content type":    {headers("text/plain"), `{"name":"CUSTOM_X"}`},
		"empty":           {headers(encoding.TypeJSON), ``},
		"unknown field":   {headers(encoding.TypeJSON), `{"name":"CUSTOM_X","nam":1}`},
		"wrong type":      {headers(encoding.TypeJSON), `{"name":5}`},
		"trailing":        {headers(encoding.TypeJSON), `{"name":"CUSTOM_X"}{}`},
		"half a message":  {headers(encoding.TypeMsgpack), "\x81\xa4na"},
		"huge length":     {headers(encoding.TypeMsgpack), string(huge)},
		"unknown in msgp": {headers(encoding.TypeMsgpack), "\x81\xa3nam\x01"},
		"json as msgpack": {headers(encoding.TypeMsgpack), `{"name":"CUSTOM_X"}`},
		"deep nesting":    {headers(encoding.TypeMsgpack), strings.Repeat("\x91", 100) + "\x01"},
	} {
		if reply := d.ask(t, "CreateTrait", c.header, []byte(c.body)); reply.Error == nil ||
			reply.Error.Code != wire.ErrorBadRequest {
			t.Errorf("%s: %+v", name, reply)
		}
	}
	const none = `{"allocations":[]}`
	reply := d.ask(t, "AllocateForConsumers", headers(encoding.TypeJSON), []byte(none))
	if reply.Rejection == nil || reply.Rejection.Code != demand.CodeInvalid {
		t.Errorf("no consumer: %+v", reply)
	}
	if after := d.Views.Checkpoint(); after != before {
		t.Errorf("bad requests moved the log from %d to %d", before.Sequence, after.Sequence)
	}
}

// TestDiscovery: every command is an endpoint that $SRV.INFO shows with its schemas.
func TestDiscovery(t *testing.T) {
	d := open(t)
	answer, err := d.client.Request("$SRV.INFO.allot", nil, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, e := range info.Endpoints {
		described[e.Subject] = json.Valid([]byte(e.Metadata["request_schema"])) && json.Valid([]byte(e.Metadata["reply_schema"]))
	}
	for name := range commands.Registry {
		if !described[wire.CommandPrefix+"."+name] {
			t.Errorf("%s is not shown with its schemas", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"allocations":[{"consumer":"22222222-2222-4222-8222-222222222222"}]}`), false)
	f.Add([]byte("\x81\xabal"), true)
	f.Add([]byte(`{"atomic":true,"commands":[{"command":"Reshape","body":{"inventories":[]}}]}`), false)
	f.Fuzz(func(t *testing.T, data []byte, packed bool) {
		contentType := encoding.TypeJSON
		if packed {
			contentType = encoding.TypeMsgpack
		}
		for _, empty := range commands.Registry {
			c := empty()
			if err := encoding.Decode(data, contentType, c); err == nil {
				c.Check() // must not panic either
				c.Consumers()
			}
		}
		for _, empty := range wire.Queries {
			_ = encoding.Decode(data, contentType, empty()) // must not panic
		}
		var batch wire.Batch
		if err := encoding.Decode(data, contentType, &batch); err == nil {
			for _, one := range batch.Commands {
				_ = one.Body.Decode(contentType, new(commands.Reshape)) // must not panic
			}
		}
	})
}

// TestDeadlines: a request after its deadline is not carried out, and its sender
// is told.
func TestDeadlines(t *testing.T) {
	d := open(t)
	before := d.Views.Checkpoint()
	for text, want := range map[string]string{
		"2001-01-01T00:00:00Z": wire.ErrorTooLate, "soon": wire.ErrorBadRequest, "2999-01-01T00:00:00Z": "",
	} {
		header := headers(encoding.TypeJSON)
		header[wire.HeaderDeadline] = text
		header[wire.HeaderDryRun] = "true"
		reply := d.ask(t, "CreateTrait", header, []byte(`{"name":"CUSTOM_X"}`))
		if got := reply.Error; got == nil != (want == "") || got != nil && got.Code != want {
			t.Errorf("%s: %+v", text, reply)
		}
	}
	if after := d.Views.Checkpoint(); after != before {
		t.Error("something happened")
	}
}
