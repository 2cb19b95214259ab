package jetstream_test

import (
	"errors"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/jetstream"
)

// guarded starts a NATS server with users of one account that may publish on all but some
// subjects. It returns a connection of each.
func guarded(t *testing.T, denied map[string][]string) map[string]*nats.Conn {
	t.Helper()
	var users []*natsserver.User
	for name, subjects := range denied {
		users = append(users, &natsserver.User{Username: name, Permissions: &natsserver.Permissions{
			Publish: &natsserver.SubjectPermission{Deny: subjects},
		}})
	}
	return connected(t, &natsserver.Options{Users: users})
}

// connected starts a NATS server, and returns a connection of each of its users.
func connected(t *testing.T, opts *natsserver.Options) map[string]*nats.Conn {
	t.Helper()
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", natsserver.RANDOM_PORT, true, true
	opts.JetStream, opts.StoreDir = true, t.TempDir()
	for _, user := range opts.Users {
		user.Password = user.Username
	}
	ns, err := natsserver.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go ns.Start()
	if !ns.ReadyForConnections(hangLimit) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(ns.Shutdown)
	if err := ns.GlobalAccount().EnableJetStream(nil, nil); err != nil { // which it is not beside other accounts
		t.Fatal(err)
	}
	list := make(map[string]*nats.Conn)
	for _, user := range opts.Users {
		quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		nc, err := nats.Connect(ns.ClientURL(), nats.UserInfo(user.Username, user.Password), quiet)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		list[user.Username] = nc
	}
	return list
}

// TestClosed: who could publish on the log's subject, or reach its stream, is found, also
// if it may hear no answer. Who may do neither, or is in another account, is not taken for
// one that can.
func TestClosed(t *testing.T) {
	t.Parallel()
	var users []*natsserver.User
	cases := map[string]string{"log": "publish on allot.log"}
	user := func(name, says string, subscribe []string, deny ...string) *natsserver.User {
		u := &natsserver.User{Username: name, Permissions: &natsserver.Permissions{
			Publish: &natsserver.SubjectPermission{Deny: deny}, Subscribe: &natsserver.SubjectPermission{Deny: subscribe},
		}}
		users, cases[name] = append(users, u), says
		return u
	}
	others := natsserver.NewAccount("OTHERS")
	none := []string{"allot.>", "$JS.>"}
	for prefix, subscribe := range map[string][]string{"hears": nil, "deaf": {"_INBOX.>"}} {
		user(prefix+"-writes", "publish on allot.log", subscribe)
		user(prefix+"-rejects", "publish on allot.rejected", subscribe, "allot.log")
		user(prefix+"-asks", "use the JetStream API", subscribe, "allot.>")
		user(prefix+"-nothing", "", subscribe, none...)
		user(prefix+"-elsewhere", "", subscribe).Account = others
	}
	list := connected(t, &natsserver.Options{
		Users: append(users, &natsserver.User{Username: "log"}), Accounts: []*natsserver.Account{others},
	})
	outsider(t, list["log"])
	if _, err := jetstream.OpenRejected(t.Context(), list["log"], jetstream.RejectedConfig{}); err != nil {
		t.Fatal(err)
	}
	for name, says := range cases {
		err := jetstream.CheckClosed(list[name], list["log"], "")
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case says != "" && (!errors.Is(err, jetstream.ErrOpen) || !strings.HasSuffix(err.Error(), "it can "+says)):
			t.Errorf("%s: %v, and not that it can %s", name, err, says)
		}
	}
}

// TestMayContinue: each permission that a log needs to go on in another stream is missed,
// and nothing is changed.
func TestMayContinue(t *testing.T) {
	t.Parallel()
	denied := map[string][]string{"all": nil}
	for _, right := range []string{
		"allot.log.>", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.CREATE.*",
		"$JS.API.STREAM.DELETE.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>",
	} {
		denied[strings.Trim(right, ".>*$")] = []string{right}
	}
	for name, nc := range guarded(t, denied) {
		err := jetstream.CheckMayContinue(nc)
		if name == "all" {
			if err != nil {
				t.Errorf("with all permissions: %v", err)
			}
			continue
		}
		if !errors.Is(err, jetstream.ErrNoRight) || !strings.HasSuffix(err.Error(), " "+denied[name][0]) {
			t.Errorf("without %q: %v", denied[name], err)
		}
	}
}

// TestDecoy: who could publish on the subjects of the log's next streams, or delete them,
// is found, also if it may hear no answer and can do nothing to the first stream. It does
// not matter what is left of a former look.
func TestDecoy(t *testing.T) {
	t.Parallel()
	log := guarded(t, map[string][]string{
		"log": nil, "writes": {"allot.log", "$JS.>"}, "deletes": {"allot.log.>"}, "neither": {"allot.log.>", "$JS.API.STREAM.DELETE.>"},
	})
	stream := outsider(t, log["log"])
	for range 2 {
		decoy, err := stream.NewDecoy(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ name, says string }{{"neither", ""}, {"writes", "publish on allot.log.>"}} {
			err := decoy.Closed(t.Context(), log[c.name])
			if (c.says == "") != (err == nil) || err != nil && (!errors.Is(err, jetstream.ErrOpen) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("one that %s: %v", c.name, err)
			}
		}
	}
	decoy, err := stream.NewDecoy(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	if err := decoy.Closed(t.Context(), log["deletes"]); !errors.Is(err, jetstream.ErrOpen) {
		t.Errorf("one that deletes: %v", err)
	}
	if err := decoy.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if names := streamNames(t, log["log"]); len(names) != 1 {
		t.Errorf("there are the streams %q", names)
	}
}

func streamNames(t *testing.T, nc *nats.Conn) (names []string) {
	t.Helper()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames() {
		names = append(names, name)
	}
	return names
}

// TestKeptBy: a stream that several servers are to keep is kept once each of them has it.
func TestKeptBy(t *testing.T) {
	t.Parallel()
	current := func(name string) jetstream.Peer { return jetstream.Peer{Name: name, Current: true} }
	for name, c := range map[string]struct {
		peers    jetstream.Peers
		replicas int
		kept     bool
	}{
		"one server":            {jetstream.Peers{}, 1, true},
		"one of a cluster":      {jetstream.Peers{Leader: "a"}, 1, true},
		"all three":             {jetstream.Peers{Leader: "a", Others: []jetstream.Peer{current("b"), current("c")}}, 3, true},
		"nobody leads":          {jetstream.Peers{Others: []jetstream.Peer{current("b"), current("c")}}, 3, false},
		"another one tells":     {jetstream.Peers{Leader: "a", Others: []jetstream.Peer{current("a"), current("c")}}, 3, false},
		"one is missing":        {jetstream.Peers{Leader: "a", Others: []jetstream.Peer{current("b")}}, 3, false},
		"one has not got there": {jetstream.Peers{Leader: "a", Others: []jetstream.Peer{current("b"), {Name: "c"}}}, 3, false},
		"one is away":           {jetstream.Peers{Leader: "a", Others: []jetstream.Peer{current("b"), {Name: "c", Current: true, Offline: true}}}, 3, false},
		"one lags":              {jetstream.Peers{Leader: "a", Others: []jetstream.Peer{current("b"), {Name: "c", Current: true, Lag: 2}}}, 3, false},
	} {
		if err := c.peers.KeptBy(c.replicas); (err == nil) != c.kept {
			t.Errorf("%s: %v", name, err)
		}
	}
}
