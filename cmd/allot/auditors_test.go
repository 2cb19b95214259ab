package main_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestAuditorsQuestions asks through every API which commands of a project were
// rejected, and who held something at a moment.
func TestAuditorsQuestions(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	data := t.TempDir()
	s := launch(t, data, "--nats", address)
	nc, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, client.Options{})
	id := func(n int) ledger.UUID { return mustParse(t, consumerID(n)) }
	body := func(project, amount string) string {
		return strings.NewReplacer(`"project_id":"p"`, `"project_id":"`+project+`"`, `"VCPU":1`, `"VCPU":`+amount).
			Replace(allocation())
	}
	s.makeProvider(3)
	s.must(204, "PUT", "/allocations/"+consumerID(1), body("first", "1"))
	before, err := c.Allocations(t.Context(), wire.AllocationsQuery{Consumer: id(1)})
	if err != nil {
		t.Fatal(err)
	}
	held := before.Sequence
	s.must(409, "PUT", "/allocations/"+consumerID(2), body("second", "3"))
	wrong := uint64(77777)
	release := &commands.ReleaseConsumer{Consumer: id(1), Generation: &wrong} // names no project
	if _, err := c.Submit(t.Context(), release); err == nil {
		t.Fatal("a wrong generation is accepted")
	}
	s.must(204, "DELETE", "/allocations/"+consumerID(1), "")
	s.must(204, "PUT", "/allocations/"+consumerID(3), body("second", "2"))

	s.rejectionsAtEveryDoor(t, c)
	s.holdersAtEveryDoor(t, c, held)
	s.numbersAsMoments(t, nc, held)
	s.kill()
	s = launch(t, data)
	if out := allot(t, true, "rejected", "--http", s.http); !strings.Contains(out, "ReleaseConsumer") {
		t.Errorf("after a start no command was rejected:\n%s", out)
	}
}

// auditedProvider is the uuid of the provider in the questions.
var auditedProvider = strings.TrimPrefix(provider, "/resource_providers/")

// rejectedCommands names the commands that a query finds, newest first.
func rejectedCommands(t *testing.T, c *client.Client, q wire.RejectionsQuery) string {
	t.Helper()
	answer, err := c.Rejections(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range answer.Result {
		names = append(names, r.Command)
	}
	return strings.Join(names, " ")
}

// rejectionsAtEveryDoor asks for rejected commands, with filters.
func (s *server) rejectionsAtEveryDoor(t *testing.T, c *client.Client) {
	t.Helper()
	id := func(n int) ledger.UUID { return mustParse(t, consumerID(n)) }
	over := func(q wire.RejectionsQuery) string { return rejectedCommands(t, c, q) }
	ledgertest.WaitFor(t, "both rejected commands",
		func() bool { return over(wire.RejectionsQuery{}) == "ReleaseConsumer AllocateForConsumers" },
		func() any { return over(wire.RejectionsQuery{}) })
	now := time.Now().UTC().Format(time.RFC3339Nano)
	for _, q := range []struct {
		query url.Values
		nats  wire.RejectionsQuery
		want  string
	}{
		{url.Values{"project": {"first"}}, wire.RejectionsQuery{Project: "first"}, "ReleaseConsumer"},
		{url.Values{"project": {"second"}}, wire.RejectionsQuery{Project: "second"}, "AllocateForConsumers"},
		{url.Values{"project": {"third"}}, wire.RejectionsQuery{Project: "third"}, ""},
		{url.Values{"consumer": {consumerID(1)}}, wire.RejectionsQuery{Consumer: id(1)}, "ReleaseConsumer"},
		{url.Values{"provider": {auditedProvider}}, wire.RejectionsQuery{Provider: mustParse(t, auditedProvider)}, "AllocateForConsumers"},
		{url.Values{"actor": {"admin"}}, wire.RejectionsQuery{Actor: "admin"}, "AllocateForConsumers"},
		{url.Values{"since": {now}}, wire.RejectionsQuery{Since: now}, ""},
		{url.Values{"until": {now}}, wire.RejectionsQuery{Until: now}, "ReleaseConsumer AllocateForConsumers"},
		{url.Values{"until": {now}, "project": {"first"}}, wire.RejectionsQuery{Until: now, Project: "first"}, "ReleaseConsumer"},
	} {
		var flags []string
		for key, values := range q.query {
			flags = append(flags, "--"+key, values[0])
		}
		status, rest, err := s.call("GET", "/audit/rejections?"+q.query.Encode(), "", "")
		if err != nil || status != 200 {
			t.Fatal(status, rest, err)
		}
		cli := allot(t, true, append([]string{"rejected", "--http", s.http}, flags...)...)
		for _, name := range []string{"ReleaseConsumer", "AllocateForConsumers"} {
			wanted := strings.Contains(q.want, name)
			if strings.Contains(rest, `"`+name+`"`) != wanted || strings.Contains(cli, name) != wanted ||
				strings.Contains(over(q.nats), name) != wanted {
				t.Errorf("%v: %s wanted: %v\n%s\n%s\n%s", q.query, name, wanted, rest, cli, over(q.nats))
			}
		}
	}
}

// holdersAtEveryDoor asks for the holders at a moment, and now.
func (s *server) holdersAtEveryDoor(t *testing.T, c *client.Client, held uint64) {
	t.Helper()
	for at, want := range map[string]string{fmt.Sprint(held): consumerID(1) + " first 1", "": consumerID(3) + " second 2"} {
		answer, err := c.Holders(
			t.Context(), wire.HoldersQuery{Provider: mustParse(t, auditedProvider), When: wire.When{At: wire.Instant(at)}},
		)
		if err != nil || len(answer.Result.Holders) != 1 {
			t.Fatalf("%+v, %v", answer, err)
		}
		one := answer.Result.Holders[0]
		if got := fmt.Sprintf("%s %s %d", one.Consumer, one.Project, one.Allocations[0].Amount); got != want {
			t.Errorf("at %q: %s, want %s", at, got, want)
		}
		fields := strings.Fields(want)
		args := []string{"holders", auditedProvider, "--http", s.http}
		if at != "" {
			args = append(args, "--at", at)
		}
		if out := allot(t, true, args...); !strings.Contains(out, fields[0]) ||
			!strings.Contains(out, fields[1]) ||
			!strings.Contains(out, "VCPU:"+fields[2]) {
			t.Errorf("%s", out)
		}
	}
}

func mustParse(t *testing.T, text string) ledger.UUID {
	t.Helper()
	id, err := ledger.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// numbersAsMoments gives a sequence as a number, in both encodings.
func (s *server) numbersAsMoments(t *testing.T, nc *nats.Conn, held uint64) {
	t.Helper()
	for _, at := range []string{fmt.Sprint(held), fmt.Sprintf(`"%d"`, held), "-1", "1.5", "{}", `"noon"`} {
		body := fmt.Sprintf(`{"consumer":"%s","at":%s}`, consumerID(1), at)
		answer, err := nc.Request("allot.query.Allocations", []byte(body), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if good := strings.Contains(string(answer.Data), `"project":"first"`); good != strings.Contains(
			at, fmt.Sprint(held),
		) {
			t.Errorf("at %s: %s", at, answer.Data)
		}
	}
	for at, good := range map[any]bool{held: true, int64(held): true, "noon": false, -1: false, 1.5: false} {
		body, err := msgpack.Marshal(map[string]any{"consumer": consumerID(1), "at": at})
		if err != nil {
			t.Fatal(err)
		}
		msg := nats.NewMsg("allot.query.Allocations")
		msg.Header.Set(wire.HeaderContentType, encoding.TypeMsgpack)
		msg.Data = body
		answer, err := nc.RequestMsg(msg, time.Minute)
		if err != nil || strings.Contains(string(answer.Data), "first") != good {
			t.Errorf("at %v: %q, %v", at, answer.Data, err)
		}
	}
}
