package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestRefusedConfigs: a server that cannot run with its configuration does not
// start, says why, and leaves the folder unchanged.
func TestRefusedConfigs(t *testing.T) {
	t.Parallel()
	taken := ledgertest.Must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = taken.Close() }) // nothing was written
	file := filepath.Join(t.TempDir(), "file")
	ledgertest.OK(t, os.WriteFile(file, []byte("not a folder"), 0o600))
	replica := func(change func(*Cluster)) Config {
		c := &Cluster{
			Member: "a", Listen: "127.0.0.1:0", Members: []string{"127.0.0.1:1", "127.0.0.1:2"},
			Secret: strings.Repeat("s", MinSecret),
		}
		change(c)
		return Config{Cluster: c}
	}
	for name, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"no port":                  {Config{Listen: "127.0.0.1"}, "is not HOST:PORT"},
		"a port that is no number": {Config{Listen: "127.0.0.1:nats"}, "no valid port"},
		"a port too large":         {Config{Listen: "127.0.0.1:65536"}, "no valid port"},
		"a negative port":          {Config{Monitor: "127.0.0.1:-1"}, "no valid port"},
		"a port that is taken":     {Config{Listen: taken.Addr().String()}, "cannot listen for clients"},
		"monitoring's port too":    {Config{Monitor: taken.Addr().String()}, "cannot listen for monitoring"},
		"another machine's":        {Config{Listen: "192.0.2.1:4222"}, "cannot listen for clients"},
		"a file for a folder":      {Config{StoreDir: file}, "file"},
		"an account twice":         {Config{Users: []User{{Name: "a", Account: "x"}, {Name: "b", Account: "x"}}}, "account x"},
		"a replica without a name": {replica(func(c *Cluster) { c.Member = "" }), "needs a name"},
		"a short secret":           {replica(func(c *Cluster) { c.Secret = "secret" }), "shorter than"},
		"a replica alone":          {replica(func(c *Cluster) { c.Members = c.Members[:1] }), "at least two"},
		"a replica nowhere":        {replica(func(c *Cluster) { c.Listen = "here" }), "is not HOST:PORT"},
		"a member nowhere":         {replica(func(c *Cluster) { c.Members[1] = "there" }), "is not HOST:PORT"},
	} {
		dir := t.TempDir()
		if c.cfg.StoreDir == "" {
			c.cfg.StoreDir = dir
		}
		s, err := Start(t.Context(), c.cfg)
		if err == nil {
			s.Shutdown()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an error with %q", name, err, c.says)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: it leaves %v, %v", name, left, err)
		}
	}
}

// listen starts a server that listens for clients until the test ends.
func listen(t *testing.T, cfg Config) *Server {
	t.Helper()
	cfg.StoreDir, cfg.Listen, cfg.LazySync = t.TempDir(), "127.0.0.1:0", true
	s := ledgertest.Must(Start(t.Context(), cfg))
	t.Cleanup(s.Shutdown)
	return s
}

// TestInterruptedStart: a server that is stopped while it starts leaves nothing running.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	address, dir := ledgertest.FreeAddress(t), t.TempDir()
	if s, err := Start(ended, Config{StoreDir: dir, Listen: address}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", s, err)
	}
	s := ledgertest.Must(Start(t.Context(), Config{StoreDir: dir, Listen: address}))
	s.Shutdown()
	s.Shutdown() // a second time is nothing
}

// TestWhoMayConnect: only a client that proves to be one of the users may connect, with that user's kind of proof.
func TestWhoMayConnect(t *testing.T) {
	t.Parallel()
	hash := quickHash(t, "secret")
	newKey := func() (public string, sign nats.SignatureHandler) {
		pair, err := nkeys.CreateUser()
		ledgertest.OK(t, err)
		public, err = pair.PublicKey()
		ledgertest.OK(t, err)
		return public, pair.Sign
	}
	known, knownSigns := newKey()
	unknown, unknownSigns := newKey()
	users := []User{
		{Name: "nova", PasswordHash: hash, Account: "nova"}, {Name: "eve", NKey: known, Account: "eve"},
		{Name: "mallory", PasswordHash: "no hash", Account: "mallory"},
		{Name: doorRole, PasswordHash: hash, Account: "named like ours"},
	}
	with, without := listen(t, Config{Users: users}), listen(t, Config{})
	forged := func([]byte) ([]byte, error) { return []byte("signed"), nil }
	for name, c := range map[string]struct {
		server *Server
		as     nats.Option
		may    bool
	}{
		"password":                  {with, nats.UserInfo("nova", "secret"), true},
		"password again":            {with, nats.UserInfo("nova", "secret"), true},
		"wrong password":            {with, nats.UserInfo("nova", "Secret"), false},
		"no password":               {with, nats.UserInfo("nova", ""), false},
		"too long a password":       {with, nats.UserInfo("nova", strings.Repeat("s", longestPassword+1)), false},
		"a hash that is none":       {with, nats.UserInfo("mallory", "no hash"), false},
		"another's name":            {with, nats.UserInfo("eve", "secret"), false},
		"unknown name":              {with, nats.UserInfo("bob", "secret"), false},
		"the process's own name":    {with, nats.UserInfo(logRole, "secret"), false},
		"its own name, no password": {with, nats.UserInfo(logRole, ""), false},
		"named like ours":           {with, nats.UserInfo(doorRole, "secret"), true},
		"no name":                   {with, nats.Name("nova"), false},
		"a token":                   {with, nats.Token("secret"), false},
		"key":                       {with, nats.Nkey(known, knownSigns), true},
		"another key":               {with, nats.Nkey(unknown, unknownSigns), false},
		"key, another signature":    {with, nats.Nkey(known, unknownSigns), false},
		"key, no signature":         {with, nats.Nkey(known, forged), false},
		"anonymous":                 {without, nats.Name("anonymous"), true},
		"anonymous with a name":     {without, nats.UserInfo("nova", "secret"), false},
		"anonymous with a key":      {without, nats.Nkey(known, knownSigns), false},
		"anonymous with a token":    {without, nats.Token("secret"), false},
		"anonymous as the process":  {without, nats.UserInfo(doorRole, ""), false},
	} {
		// Where checking a password takes more than two seconds, because of wrong ones
		// before or a slow machine, the library gives up; so does the server after five.
		var err error
		slow := true
		for deadline := time.Now().Add(2 * time.Minute); slow && time.Now().Before(deadline); {
			var nc *nats.Conn
			if nc, err = nats.Connect(c.server.ClientURL(), c.as, nats.Timeout(time.Minute)); err == nil {
				nc.Close()
			}
			slow = err != nil && !errors.Is(err, nats.ErrAuthorization)
			if !c.may {
				break // further wrong ones would only take longer
			}
		}
		if (err == nil) != c.may || !c.may && !slow && !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTooManyConnections: the connections of one user, and of all clients without
// a name together, are bounded. A connection that ends makes room.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	logs := new(ledgertest.Output)
	for name, c := range map[string]struct {
		users []User
		hello string
		most  int
	}{
		"a user": {
			[]User{{Name: "nova", PasswordHash: quickHash(t, "secret"), Account: "nova"}},
			`CONNECT {"user":"nova","pass":"secret"}`, userConnections,
		},
		"anonymous": {nil, `CONNECT {}`, maxAnonymous},
	} {
		users := c.users
		s := listen(t, Config{
			Users: users, Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		connect := func() (*nats.Conn, error) {
			options := []nats.Option{nats.Timeout(time.Minute), nats.NoReconnect()}
			if users != nil {
				options = append(options, nats.UserInfo("nova", "secret"))
			}
			nc, err := nats.Connect(s.ClientURL(), options...)
			for err != nil && strings.Contains(err.Error(), "got 'PING'") { // the client takes a server that asks first for a fault
				nc, err = nats.Connect(s.ClientURL(), options...)
			}
			return nc, err
		}
		var last net.Conn
		for n := range c.most {
			var lines *bufio.Scanner
			last, lines = greet(t, s, c.hello)
			for lines.Scan() && lines.Text() != "PONG" && !strings.HasPrefix(lines.Text(), "-ERR") {
			}
			if lines.Text() != "PONG" {
				t.Fatalf("%s: connection %d: %s, %v", name, n+1, lines.Text(), lines.Err())
			}
			go answerPings(last, lines)
		}
		_, err := connect()
		if !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
			t.Errorf("%s: one too many: %v", name, err)
		}
		_ = last.Close() // what it sent was answered
		ledgertest.WaitFor(t, "room after one has gone", func() bool {
			_, err = connect()
			return err == nil
		}, func() any { return fmt.Sprint(name, ": ", err) })
		s.Shutdown()
	}
	for _, text := range []string{"maximum account active connections exceeded", "a NATS client cannot connect"} {
		if !strings.Contains(logs.String(), text) {
			t.Errorf("the log does not say %q", text)
		}
	}
}

// answerPings answers the server's pings, without which it closes a connection.
func answerPings(conn net.Conn, lines *bufio.Scanner) {
	for lines.Scan() {
		if lines.Text() == "PING" {
			_, _ = io.WriteString(conn, "PONG\r\n") // the server may have closed it
		}
	}
}

// TestLinesAboutConnections: connections fill no log, and hide nothing of what servers do.
func TestLinesAboutConnections(t *testing.T) {
	t.Parallel()
	var logs strings.Builder
	var door nats.Options
	l := newNATSLogger(slog.New(slog.NewTextHandler(&logs, nil)))
	ledgertest.OK(t, jetstream.LogRefusals(l.log, "door")(&door))
	for n := range 1000 {
		door.AsyncErrorCB(nil, nil, nats.ErrBadHeaderMsg)
		l.Errorf("192.0.2.1:5 - cid:%d - Publish Violation - Subject \"%s - rid:1 - \"", n, strings.Repeat("x", 3000))
	}
	l.Errorf("192.0.2.2:5 - rid:7 - a router was turned away")
	l.Errorf("192.0.2.2:5 - rid:7 - Unknown account \"alice\" for remote subject \"_INBOX.x\"")
	l.Errorf("the server itself has failed")
	l.Errorf("192.0.2.2:5 - rid:7 - Unknown account \"anonymous:two:1\" for remote subject \"_INBOX.x\"")
	for _, one := range []struct {
		words       string
		least, most int
	}{
		{"Publish Violation", 1, 30}, {"decode headers", 1, 30}, {"turned away", 1, 1}, {"itself has failed", 1, 1}, {"anonymous", 0, 0}, {"alice", 1, 1},
	} {
		if n := strings.Count(logs.String(), one.words); n < one.least || n > one.most {
			t.Errorf("%d lines have %q", n, one.words)
		}
	}
	if logs.Len() > 30<<10 {
		t.Errorf("%d bytes", logs.Len())
	}
	if err := l.lastError(); err == nil || err.Error() != "the server itself has failed" {
		t.Errorf("%v", err)
	}
	l.Fatalf("cannot go on\n")
	l.Fatalf("cannot go on either\n")
	if err := <-l.fatal; err == nil || err.Error() != "cannot go on" {
		t.Errorf("%v", err)
	}
}

// TestOwnRoles: none of the process's connections can do what another one is for.
func TestOwnRoles(t *testing.T) {
	t.Parallel()
	s := listen(t, Config{
		Services: []string{"svc.>"}, Door: "door", Streams: []string{"news.>"}, Logger: slog.New(slog.DiscardHandler),
	})
	if peer := peerOf(s.ns.Name()); peer != s.ns.Node() {
		t.Errorf("JetStream calls %s %s, not %s", s.ns.Name(), s.ns.Node(), peer)
	}
	may := map[string]map[string]bool{
		"log":     {"allot.log": true, "allot.rejected": true, "$JS.API.INFO": true},
		"door":    {"_R_.x": true},
		"notices": {"news.x": true},
	}
	for name, connect := range map[string]func() (*nats.Conn, error){"log": s.Connect, "door": s.ConnectDoor, "notices": s.ConnectNotices} {
		for _, subject := range []string{"allot.log", "allot.rejected", "$JS.API.INFO", "_R_.x", "news.x", "svc.x", "_INBOX.x", "$SYS.REQ.SERVER.PING", "x"} {
			nc := ledgertest.Must(connect())
			ledgertest.OK(t, nc.Publish(subject, nil), nc.Flush())
			if got := nc.LastError() == nil; got != may[name][subject] {
				t.Errorf("%s publishes on %s: %v", name, subject, nc.LastError())
			}
			nc.Close()
		}
	}
}
