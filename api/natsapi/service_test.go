package natsapi_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/rest/resttest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
)

type door struct {
	*commandstest.Ledger
	client *nats.Conn
}

// connectDoor starts a ledger over JetStream, and connects to it as the service that answers clients does.
func connectDoor(t *testing.T) (*commandstest.Ledger, *embedded.Server, *nats.Conn) {
	t.Helper()
	dir := t.TempDir()
	log, ns := commandstest.JetStream(t, dir, false)
	l := commandstest.Start(t, dir, log)
	nc := commandstest.Must(ns.ConnectDoor())
	t.Cleanup(nc.Close)
	return l, ns, nc
}

func open(t *testing.T) door {
	t.Helper()
	return openWith(t, natsapi.Config{Now: time.Now})
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
	svc := commandstest.Must(natsapi.Start(nc, configOf(l, cfg)))
	t.Cleanup(func() { ledgertest.OK(t, svc.Stop()) })
	return door{l, dial(t, ns.ClientURL())}
}

func dial(t *testing.T, url string) *nats.Conn {
	t.Helper()
	conn := commandstest.Must(nats.Connect(url))
	t.Cleanup(conn.Close)
	return conn
}

// request sends a request to a subject. Its answer says which commit it holds: its own one,
// if it has one, and one that can be read.
func (d door) request(t *testing.T, subject string, header map[string]string, body string) (*nats.Msg, wire.Reply) {
	t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = []byte(body)
	for key, value := range header {
		msg.Header.Set(key, value)
	}
	answer, err := d.client.RequestMsg(msg, 5*time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var reply wire.Reply
	_ = encoding.Decode(answer.Data, answer.Header.Get(wire.HeaderContentType), &reply) // answers to queries are none
	held, err := strconv.ParseUint(answer.Header.Get(wire.HeaderSequence), 10, 64)
	long, last := len(answer.Header.Get("Nats-Service-Error")) > 1100, d.Views.Checkpoint().Sequence
	if err != nil || long || held == 0 || reply.Sequence > 0 && held != reply.Sequence || held > last {
		t.Errorf("%s holds %d of %d: %s, %v", subject, held, d.Views.Checkpoint().Sequence, answer.Data, err)
	}
	return answer, reply
}

// ask sends a command, whose headers tell of a failure.
func (d door) ask(t *testing.T, name string, header map[string]string, body string) wire.Reply {
	t.Helper()
	answer, reply := d.request(t, wire.CommandPrefix+"."+name, header, body)
	failed := reply.Error != nil || reply.Rejection != nil
	if failed != (answer.Header.Get("Nats-Service-Error") != "") || !failed && reply.Sequence == 0 && reply.Events == nil {
		t.Errorf("%s: headers %v, reply %+v: %q", name, answer.Header, reply, answer.Data)
	}
	return reply
}

func headers(contentType string) map[string]string {
	return map[string]string{wire.HeaderContentType: contentType, wire.HeaderCommandID: commandstest.NewID().String()}
}

// TestTranscripts plays the transcripts in testdata over NATS.
func TestTranscripts(t *testing.T) {
	resttest.Play(t, func(t *testing.T, _ string) *resttest.World {
		d := open(t)
		send := func(w http.ResponseWriter, r *http.Request) {
			header := make(map[string]string)
			for name := range r.Header {
				header[name] = r.Header.Get(name)
			}
			body := commandstest.Must(io.ReadAll(r.Body))
			answer, _ := d.request(t, strings.TrimPrefix(r.URL.Path, "/"), header, string(body))
			if answer.Header.Get("Nats-Service-Error") != "" {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write(answer.Data) // into memory
		}
		version := func(header http.Header, version string) {
			if version != "none" {
				header.Set(wire.HeaderCommandID, commandstest.NewID().String())
			}
		}
		return &resttest.World{Ledger: d.Ledger, Handler: http.HandlerFunc(send), Version: version}
	})
}

// TestDiscovery: every command is an endpoint that $SRV.INFO shows with its schemas.
func TestDiscovery(t *testing.T) {
	d := open(t)
	answer := commandstest.Must(d.client.Request("$SRV.INFO.allot", nil, 5*time.Minute))
	var info micro.Info
	ledgertest.OK(t, json.Unmarshal(answer.Data, &info))
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
				commands.Check(c) // must not panic either
				commands.Consumers(c)
			}
		}
		for _, kind := range wire.Queries {
			_ = encoding.Decode(data, contentType, kind.Empty()) // must not panic
		}
		var batch wire.Batch
		if err := encoding.Decode(data, contentType, &batch); err == nil {
			for _, one := range batch.Commands {
				_ = one.Body.Decode(contentType, new(commands.Reshape)) // must not panic
			}
		}
	})
}

// TestDiscoveryIsAnsweredOnce: what clients ask to discover the service is answered as the
// library would, beside all other requests, also by a second service on the connection.
func TestDiscoveryIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	l, ns, nc := connectDoor(t)
	client := dial(t, ns.ClientURL())
	for range 2 { // a second time on the same connection
		svc, err := natsapi.Start(nc, configOf(l, natsapi.Config{
			Trace: func(natsapi.Name, func(string) string) (*commands.Trace, func(string)) { // of every request
				return &commands.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, func(string) {}
			},
		}))
		ledgertest.OK(t, err)
		for _, size := range []int{0, 10, 100_000} {
			for _, subject := range []string{
				"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.INFO.allot", "$SRV.PING.allot", "$SRV.INFO.other", "$SRV.PING.allot.x", "$SRV.x",
				"allot.query.Usages", "allot.query.Provider", "allot.batch", "allot.command.CreateTrait",
			} {
				asked := client.PublishRequest(subject, nats.NewInbox(), make([]byte, size))
				if err := errors.Join(asked, client.Publish(subject, make([]byte, size))); err != nil { // to no one's inbox
					t.Fatal(err)
				}
			}
		}
		_, err = client.Request("allot.query.Usages", []byte(`{"project":"p"}`), time.Minute)
		ledgertest.OK(t, err)
		// Each kind is answered once, as the library would.
		for subject, answers := range map[string]int{
			"$SRV.PING": 1, "$SRV.INFO": 1, "$SRV.STATS.allot": 1, "$SRV.INFO.other": 0, "$SRV.PING.allot.x": 0, "$SRV.x": 0,
		} {
			inbox := nats.NewInbox()
			sub, err := client.SubscribeSync(inbox)
			if err == nil {
				err = client.PublishRequest(subject, inbox, nil)
			}
			ledgertest.OK(t, err)
			for range answers {
				if _, err := sub.NextMsg(time.Minute); err != nil {
					t.Fatalf("%s: %v", subject, err)
				}
			}
			// Nothing more has come by the time that a later request is answered.
			kind, _, _ := strings.Cut(strings.TrimPrefix(subject, "$SRV."), ".")
			if kind == "x" {
				kind = "PING"
			}
			_, err = client.Request("$SRV."+kind+".allot", nil, time.Minute)
			ledgertest.OK(t, err)
			if n, _, err := sub.Pending(); err != nil || n != 0 {
				t.Errorf("%s: %d answers more than %d, %v", subject, n, answers, err)
			}
		}
		ledgertest.OK(t, svc.Stop())
	}
}

// TestBadUsers: a file of users that is not as it should be is refused as a whole.
func TestBadUsers(t *testing.T) {
	t.Parallel()
	hash := commandstest.Must(bcrypt.GenerateFromPassword([]byte("correct horse"), bcrypt.DefaultCost))
	for name, text := range map[string]string{
		"nothing": "", "no users": "users: []", "no name": "users: [{role: operator, password: x}]",
		"plain password":     "users: [{name: a, role: operator, password: secret}]",
		"no role":            "users: [{name: a, password: 'HASH'}]",
		"unknown role":       "users: [{name: a, role: king, password: 'HASH'}]",
		"unknown command":    "users: [{name: a, role: submitter, commands: [Fly], password: 'HASH'}]",
		"unknown field":      "users: [{name: a, role: operator, colour: red, password: 'HASH'}]",
		"bound auditor":      "users: [{name: a, role: auditor, project: p, password: 'HASH'}]",
		"bad key":            "users: [{name: a, role: operator, nkey: UABC}]",
		"key and password":   "users: [{name: a, role: operator, nkey: UABC, password: 'HASH'}]",
		"twice":              "users: [{name: a, role: operator, password: 'HASH'}, {name: a, role: auditor, password: 'HASH'}]",
		"not even a mapping": "[1, 2]",
	} {
		if _, err := natsapi.LoadUsers([]byte(strings.ReplaceAll(text, "HASH", string(hash)))); !errors.Is(err, natsapi.ErrUsers) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := natsapi.LoadUsers([]byte("users: [{name: a, role: auditor, password: '" + string(hash) + "'}]")); err != nil {
		t.Errorf("a good one: %v", err)
	}
}
