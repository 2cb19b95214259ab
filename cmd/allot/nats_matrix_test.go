package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Entities of the project p, to which the tenant is bound, and of q.
const (
	anyProvider = "11111111-1111-4111-8111-111111111111"
	ownThing    = "aaaaaaaa-0000-4000-8000-000000000001"
	otherThing  = "bbbbbbbb-0000-4000-8000-000000000002"
	lastThing   = "cccccccc-0000-4000-8000-000000000003" // of p; no test asks for it

	consumerNotice = "allot.notice.consumer."
)

// bodies are the bodies of nats_requests.txt, by subject.
var bodies = sync.OnceValue(func() map[string]string {
	found := make(map[string]string)
	for _, line := range ledgertest.Asked("testdata/nats_requests.txt") {
		subject, body, _ := strings.Cut(line, " ")
		found[subject] = body
	}
	return found
})

func fill(body, thing, project string) string {
	return strings.NewReplacer("THING", thing, "PROJECT", project, "PROVIDER", anyProvider).Replace(body)
}

// populate makes the entities of the questions, over REST, without users.
func (s *server) populate(nc *nats.Conn) {
	s.T.Helper()
	send := func(name, body string) {
		msg := nats.NewMsg("allot.command." + name)
		msg.Header.Set(wire.HeaderCommandID, uuid.NewString())
		msg.Data = []byte(body)
		answer, err := nc.RequestMsg(msg, hang)
		if err != nil || strings.Contains(string(answer.Data), `"rejection"`) ||
			strings.Contains(string(answer.Data), `"error"`) {
			s.T.Fatalf("%s: %v %+v", name, err, answer)
		}
	}
	send("CreateProvider", fill(`{"provider":"PROVIDER","name":"p"}`, "", ""))
	send("ReplaceInventories", fill(`{"provider":"PROVIDER","inventories":[{"class":"VCPU","total":100}]}`, "", ""))
	for project, thing := range map[string]string{"p": ownThing, "q": otherThing} {
		send("AllocateForConsumers", fill(bodies()["allot.command.AllocateForConsumers"], thing, project))
		send("CreateNode", fmt.Sprintf(`{"node":%q,"driver":"fake","owner":%q,"resource_class":"bm"}`, thing, project))
		send("CreateChassis", fmt.Sprintf(`{"chassis":%q}`, thing))
		send("RequestNodeAllocation", fmt.Sprintf(`{"allocation":%q,"owner":%q,"resource_class":"bm"}`, thing, project))
	}
}

// persona is a client of a server; nc is nil if it cannot connect.
type persona struct {
	nc    *nats.Conn
	other *nats.Conn // another client of the server, which makes changes
}

// answered sends a request. It reports whether the request was carried out, and
// as one about something that exists and belongs to the client.
func (p *persona) answered(t *testing.T, subject, body string) bool {
	t.Helper()
	inbox := nats.NewInbox()
	sub, err := p.nc.SubscribeSync(inbox)
	must(t, err)
	defer func() { _ = sub.Unsubscribe() }() // the test goes on
	before := p.nc.LastError()
	msg := &nats.Msg{Subject: subject, Reply: inbox, Data: []byte(body), Header: nats.Header{wire.HeaderDryRun: {"true"}}}
	must(t, p.nc.PublishMsg(msg), p.nc.Flush())
	if after := p.nc.LastError(); !errors.Is(before, after) && errors.Is(after, nats.ErrPermissionViolation) {
		return false
	}
	answer, err := sub.NextMsg(hang)
	if errors.Is(err, nats.ErrNoResponders) {
		return false
	}
	if err != nil {
		t.Errorf("%s: %v", subject, err)
		return false
	}
	var reply struct {
		Error     *wire.Error
		Rejection *demand.Rejection
		Replies   []wire.Reply
	}
	if strings.HasPrefix(subject, "$JS.") {
		return !strings.Contains(string(answer.Data), `"err_code":10039`) // the client's account has no JetStream
	}
	if err := json.Unmarshal(answer.Data, &reply); err != nil && strings.HasPrefix(subject, "allot.") {
		t.Errorf("%s: %s: %v", subject, answer.Data, err)
	}
	switch {
	case answer.Header.Get("Status") == "503":
		return false
	case reply.Error != nil && reply.Error.Code == wire.ErrorBadRequest,
		reply.Rejection != nil && reply.Rejection.Code == demand.CodeInvalid:
		t.Errorf("%s %s is no proper request: %s", subject, body, answer.Data)
	case reply.Error != nil && strings.HasPrefix(subject, "allot.query.Checkpoint"):
		return reply.Error.Code != wire.ErrorForbidden // there is no key
	case reply.Error != nil:
		return false
	}
	return reply.Rejection == nil || !slices.Contains(
		[]demand.Code{demand.CodeForbidden, demand.CodeConsumerNotFound, demand.CodeNodeAllocationNotFound},
		reply.Rejection.Code,
	)
}

// asks returns what a persona may do with entities of its project, and with others.
func (p *persona) asks(t *testing.T, subject, body string) string {
	t.Helper()
	return cell(p.answered(t, subject, fill(body, ownThing, "p")), p.answered(t, subject, fill(body, otherThing, "q")))
}

func cell(own, others bool) string {
	switch {
	case own && others:
		return "yes"
	case own:
		return "own"
	case others:
		return "others"
	}
	return "no"
}

// hears reports whether a persona hears what happens to others on subjects.
func (p *persona) hears(t *testing.T, own, others string) string {
	t.Helper()
	heard := func(subject string) bool {
		sub, err := p.nc.SubscribeSync(subject)
		must(t, err)
		defer func() { _ = sub.Unsubscribe() }() // the test goes on
		before := p.nc.LastError()
		must(t, p.nc.Flush())
		if after := p.nc.LastError(); !errors.Is(before, after) && errors.Is(after, nats.ErrPermissionViolation) {
			return false
		}
		return p.happens(t, sub)
	}
	a := heard(own)
	return cell(a, a && others == own || others != own && heard(others))
}

// happens changes something in both projects, and reports whether a subscription
// hears of it. Something that everybody may hear comes last.
func (p *persona) happens(t *testing.T, sub *nats.Subscription) bool {
	t.Helper()
	witness, err := p.other.SubscribeSync("allot.notice.>")
	must(t, err)
	defer func() { _ = witness.Unsubscribe() }() // the test goes on
	must(t, p.other.Flush())
	change := func(thing, project string) {
		msg := nats.NewMsg("allot.command.AllocateForConsumers")
		msg.Header.Set(wire.HeaderCommandID, uuid.NewString())
		msg.Data = []byte(fill(bodies()["allot.command.AllocateForConsumers"], thing, project))
		if _, err := p.other.RequestMsg(msg, hang); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(wanted ...string) {
		for len(wanted) > 0 {
			msg, err := witness.NextMsg(hang)
			must(t, err)
			if id, is := strings.CutPrefix(msg.Subject, consumerNotice); is {
				says(t, fmt.Sprint(msg.Header), "ce-specversion:[1.0]", "ce-type:[org.allot.record.AllocateForConsumers]",
					"Content-Type:[application/json]", "ce-subject:[consumer/"+id+"]", "ce-id:[", "ce-source:[", "ce-time:[")
			}
			wanted = slices.DeleteFunc(wanted, func(subject string) bool { return subject == msg.Subject })
		}
	}
	change(ownThing, "p")
	change(otherThing, "q")
	hears("allot.notice.project.p", "allot.notice.project.q", "allot.notice.user.u", consumerNotice+ownThing, consumerNotice+otherThing)
	if sub.Subject == wire.HeartbeatSubject {
		hears(wire.HeartbeatSubject)
	}
	change(lastThing, "p") // when one listener hears of it, what was published before has gone to all
	hears(consumerNotice + lastThing)
	must(t, p.nc.Flush())
	heard, _, err := sub.Pending()
	must(t, err)
	return heard > 0
}

// does finds out what the cell of a row must be.
func (p *persona) does(t *testing.T, what string) []string {
	t.Helper()
	kind, rest, _ := strings.Cut(what, " ")
	if p.nc == nil {
		return []string{"no"}
	}
	var cells []string
	for name := range strings.SplitSeq(rest, ", ") {
		switch kind {
		case "connect":
			cells = append(cells, "yes")
		case "command":
			cells = append(cells, p.asks(t, "allot.command."+name, bodies()["allot.command."+name]))
		case "query":
			cells = append(cells, p.asks(t, "allot.query."+name, bodies()["allot.query."+name]))
		case "discover":
			cells = append(cells, p.asks(t, name, ""))
		case "hear":
			name, _, _ = strings.Cut(name, " of others")
			own, others := name, name
			switch {
			case strings.HasPrefix(name, "allot.notice.project"):
				own, others = "allot.notice.project.p", "allot.notice.project.q"
			case strings.HasPrefix(name, "allot.notice.consumer"):
				own, others = consumerNotice+ownThing, consumerNotice+otherThing
			}
			cells = append(cells, p.hears(t, own, others))
		case "publish":
			cells = append(cells, p.asks(t, name, "{}"))
		case "batch,":
			batch := `{"commands":[{"command":"AllocateForConsumers","id":"` + uuid.NewString() + `","body":` +
				bodies()["allot.command.AllocateForConsumers"] + `}]}`
			may := p.answered(t, "allot.batch", fill(batch, ownThing, "p"))
			return []string{cell(may, may)}
		default:
			t.Fatalf("the test has no request for %q", what)
		}
	}
	return cells
}

// embeddedPersonas are the personas of two servers, with users and without.
func embeddedPersonas(t *testing.T) map[string]*persona {
	g := launchGuarded(t)
	open := launchUnguarded(t)
	root := g.connect("root")
	g.populate(root)
	one := &persona{open.connect(), open.connect()}
	open.populate(one.nc)
	for _, option := range []nats.Option{nats.Name("eve"), nats.UserInfo("eve", "wrong"), nats.UserInfo("", ""), nats.Token("x")} {
		if nc, err := nats.Connect("nats://"+g.nats, quiet, option); err == nil {
			nc.Close()
			t.Error("a stranger connects")
		}
	}
	return map[string]*persona{
		"stranger": {}, "anonymous": one, "submitter": {g.connect("nova"), root}, "bound": {g.connect("tenant"), root},
		"auditor": {g.connect("eve"), root}, "operator": {root, g.connect("nova")},
	}
}

// externalPersonas are the personas of a server with the documented configuration.
func externalPersonas(t *testing.T) map[string]*persona {
	documented := filepath.Join(t.TempDir(), "nats-server.conf")
	text := regexp.MustCompile(`\$(\w+_PASSWORD)`).ReplaceAllString(read(t, "../../docs/nats-server.conf"), "secret-$1")
	write(t, documented, text)
	opts, err := natsserver.ProcessConfigFile(documented)
	must(t, err)
	address := serveNATS(t, opts).Addr().String()
	as := func(user, variable string) string { return "nats://" + user + ":secret-" + variable + "@" + address }
	flags := filepath.Join(t.TempDir(), "allot.yaml")
	write(t, flags, fmt.Sprintf("nats-url: %s\nnats-door-url: %s\n",
		as("allot-log", "ALLOT_LOG_PASSWORD"), as("allot-door", "ALLOT_DOOR_PASSWORD")))
	s := launch(t, t.TempDir(), "--config", flags)
	connect := func(user, variable string) *nats.Conn {
		return dial(t, as(user, variable))
	}
	root := connect("root", "ROOT_PASSWORD")
	s.populate(root)
	for _, option := range []nats.Option{nats.Name("eve"), nats.UserInfo("eve", "wrong")} {
		if nc, err := nats.Connect("nats://"+address, quiet, option); err == nil {
			nc.Close()
			t.Error("a stranger connects")
		}
	}
	t.Cleanup(func() { s.Must(http.StatusOK, "GET", "/resource_providers", "") })
	return map[string]*persona{
		"ext stranger": {}, "ext submitter": {connect("nova", "NOVA_PASSWORD"), root},
		"ext auditor":  {connect("eve", "EVE_PASSWORD"), root},
		"ext operator": {root, connect("nova", "NOVA_PASSWORD")},
	}
}

// TestNATSMatrix tries every subject, command and query as every persona, and
// compares the results with the table in docs/security.md.
func TestNATSMatrix(t *testing.T) {
	t.Parallel()
	table := securityTable(t, "NATS", "")
	personas, rows, named := table[0][1:], make(map[string][]string), make(map[string]bool)
	for _, cells := range table[1:] {
		rows[cells[0]] = cells[1:]
	}
	if len(personas) != 10 || len(rows) != 16 {
		t.Fatalf("the table has %d personas and %d rows", len(personas), len(rows))
	}
	for what := range rows {
		for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(what, "command "), "query "), ", ") {
			named[name] = true
		}
	}
	var rest []string
	for name := range commands.Registry {
		if bodies()["allot.command."+name] == "" {
			t.Errorf("the test has no request for %s", name)
		}
		if !named[name] {
			rest = append(rest, name)
		}
	}
	for name := range wire.Queries {
		if !named[name] {
			t.Errorf("the table does not tell who may ask %s", name)
		}
	}
	all := embeddedPersonas(t)
	for name, p := range externalPersonas(t) {
		all[name] = p
	}
	for what, promised := range rows {
		try := what
		if what == "command (every other)" {
			try = "command " + strings.Join(rest, ", ")
		}
		for i, name := range personas {
			if all[name] == nil {
				t.Fatalf("no persona is called %q", name)
			}
			for n, got := range all[name].does(t, try) {
				if got != promised[i] {
					t.Errorf("%s: %s, part %d: %s, and %s is promised", name, what, n, got, promised[i])
				}
			}
		}
	}
}

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

// hears subscribes to everything that a connection may hear, and returns what came.
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

// attackReplies sends every kind of request with every reply subject that does not belong to the sender.
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
	// Earlier requests have been handled when one of each kind is answered, three times over.
	for range 3 {
		for _, name := range []string{"query", "discovery", "discovery all"} { // everybody may ask these
			if _, err := nc.RequestMsg(requests()[name], hang); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// TestReplySubjects: a request's reply goes to its sender and nowhere else, whatever reply subject it names: not to
// the log, to JetStream, or to clients that listen for notices or for their own answers. With users and without.
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

// TestAnswersArePrivate: no client hears the answers of another one, with users and without.
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
