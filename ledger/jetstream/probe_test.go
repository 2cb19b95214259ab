package jetstream_test

import (
	"errors"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/jetstream"
)

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
	open(t, list["log"], true)
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
