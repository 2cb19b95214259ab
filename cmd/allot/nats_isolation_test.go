package main_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/wire"
)

// requests are one valid request for each kind of subject.
func requests() map[string]*nats.Msg {
	create := nats.NewMsg("allot.command.CreateTrait")
	create.Data = []byte(`{"name":"CUSTOM_X"}`)
	create.Header.Set(wire.HeaderDryRun, "true")
	batch := nats.NewMsg("allot.batch")
	batch.Data = []byte(`{"commands":[]}`)
	return map[string]*nats.Msg{
		"command": create, "batch": batch,
		"query":         {Subject: "allot.query.Usages", Data: []byte(`{"project":"p"}`)},
		"broken query":  {Subject: "allot.query.Usages", Data: []byte(`{`)},
		"discovery":     {Subject: "$SRV.INFO.allot"},
		"discovery all": {Subject: "$SRV.PING"},
	}
}

// hears subscribes to everything that a connection may hear, and returns what
// came.
func hears(t *testing.T, nc *nats.Conn, subjects ...string) func() []string {
	t.Helper()
	got := make(chan string, 1000)
	for _, subject := range subjects {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if m.Subject != wire.HeartbeatSubject || m.Header != nil {
				got <- m.Subject + " " + string(m.Data)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, nc.Flush())
	return func() (list []string) {
		for len(got) > 0 {
			list = append(list, <-got)
		}
		return list
	}
}

// attackReplies sends every kind of request with every reply subject that does
// not belong to the sender.
func attackReplies(t *testing.T, nc *nats.Conn, victim string) {
	t.Helper()
	for _, reply := range []string{
		"allot.log", "allot.rejected", "$JS.API.STREAM.PURGE.ALLOT_REJECTED", "$JS.API.STREAM.DELETE.ALLOT_REJECTED",
		"$JS.API.STREAM.UPDATE.ALLOT", "$JS.API.STREAM.DELETE.ALLOT", "allot.sealed.ALLOT", "$JS.API.STREAM.INFO.ALLOT", "$JS.ACK.ALLOT.x.1.1.1.1.1", "$SYS.REQ.SERVER.PING",
		"allot.notice.project.p", "allot.notice.heartbeat", "allot.command.CreateTrait", "allot.batch",
		"allot.query.Usages", victim,
	} {
		for _, msg := range requests() {
			msg.Reply = reply
			must(t, nc.PublishMsg(msg))
		}
	}
	// Earlier requests have been handled when one of each kind is answered, three
	// times over.
	for range 3 {
		for _, name := range []string{"query", "discovery", "discovery all"} { // everybody may ask these
			if _, err := nc.RequestMsg(requests()[name], hang); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// TestReplySubjects: a request's reply goes to its sender and nowhere else,
// whatever reply subject it names: not to the log, to JetStream, or to clients
// that listen for notices or for their own answers. With users and without.
func TestReplySubjects(t *testing.T) {
	t.Parallel()
	g := launchGuarded(t)
	open := launchUnguarded(t)
	for _, c := range []struct {
		name             string
		server           *server
		attacker, victim *nats.Conn
	}{
		{"tenant", g.server, g.connect("tenant"), g.connect("root")},
		{"nova", g.server, g.connect("nova"), g.connect("eve")},
		{"eve", g.server, g.connect("eve"), g.connect("root")},
		{"root", g.server, g.connect("root"), g.connect("eve")},
		{"anonymous", open.server, open.connect(), open.connect()},
	} {
		inbox := nats.NewInbox()
		heard := hears(t, c.victim, "allot.notice.>", "_INBOX.>", inbox)
		attackReplies(t, c.attacker, inbox)
		must(t, c.victim.Flush())
		if list := heard(); len(list) > 0 {
			t.Errorf("%s: another client heard %d messages, such as %.200s", c.name, len(list), list[0])
		}
		if n := len(c.server.commandIDs()); n != 1 {
			t.Errorf("%s: the log has %d records", c.name, n)
		}
		if _, err := c.victim.Request("$SRV.PING.allot", nil, hang); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, s := range map[string]*server{"guarded": g.server, "open": open.server} {
		select {
		case <-s.Exited:
			t.Errorf("%s: the server has gone:\n%s", name, s.Logs)
		default:
		}
		s.makeProvider(10) // the log is unchanged, and takes commands
	}
}

// TestAnswersArePrivate: no client hears the answers of another one, with users
// and without.
func TestAnswersArePrivate(t *testing.T) {
	t.Parallel()
	g := launchGuarded(t)
	open := launchUnguarded(t)
	connections := map[string]*nats.Conn{}
	for _, user := range []string{"nova", "tenant", "eve", "root"} {
		connections[user] = g.connect(user)
	}
	for _, name := range []string{"one", "two"} {
		connections[name] = open.connect()
	}
	heard := map[string]func() []string{}
	for name, nc := range connections {
		heard[name] = hears(t, nc, "_INBOX.>", "_INBOX.*.*", "_R_.>", ">", "*.*.*")
	}
	project := uuid.NewString()
	for name, nc := range connections {
		q := fmt.Appendf(nil, `{"project":"p","user":%q}`, project+name)
		if _, err := nc.Request("allot.query.Usages", q, hang); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, nc := range connections {
		must(t, nc.Flush())
		// Its own answer comes twice at most: _INBOX.> and _INBOX.*.*.
		if list := heard[name](); len(list) > 2 {
			t.Errorf("%s hears %d answers: %.300q", name, len(list), list)
		}
	}
}
