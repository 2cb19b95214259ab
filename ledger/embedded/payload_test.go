package embedded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestPayload: clients may send messages up to the limit that they are told, and who sends more is cut off before it
// has come; this process's own connections may send what the log takes.
func TestPayload(t *testing.T) {
	t.Parallel()
	const most = DefaultPayload
	for name, c := range map[string]struct {
		users []User
		hello string
	}{
		"anonymous": {nil, `CONNECT {"protocol":1}`},
		"a user": {
			[]User{{Name: "nova", PasswordHash: quickHash(t, "secret"), Account: "nova", Publish: []string{"svc"}, Subscribe: []string{"_INBOX.>"}}},
			`CONNECT {"protocol":1,"user":"nova","pass":"secret"}`,
		},
	} {
		s := listen(t, Config{Services: []string{"svc"}, Door: "door", Users: c.users})
		door := ledgertest.Must(s.ConnectDoor())
		defer door.Close()
		log := ledgertest.Must(s.Connect())
		defer log.Close()
		for _, own := range []*nats.Conn{log, door} {
			ledgertest.OK(t, own.Flush())
			if got := own.MaxPayload(); got != MaxPayload {
				t.Errorf("this process's own connection: told %d", got)
			}
		}
		stream, err := jetstream.Open(t.Context(), log, jetstream.Config{MayCreate: true, AckTimeout: ledgertest.Hang})
		ledgertest.OK(t, err)
		ledgertest.OK(t, ledgertest.Append(stream, 1, make([]byte, stream.MaxCommitBytes())))
		large := make([]byte, 2*most) // answers may be larger
		_, err = door.Subscribe("door.*.svc", func(m *nats.Msg) { _ = m.Respond(large) })
		ledgertest.OK(t, err)
		nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("nova", "secret"))
		if c.users == nil {
			nc, err = nats.Connect(s.ClientURL())
		}
		ledgertest.OK(t, err)
		defer nc.Close()
		ledgertest.OK(t, nc.Flush())
		if got := nc.MaxPayload(); got != most {
			t.Errorf("%s: told %d", name, got)
		}
		if m, err := nc.Request("svc", make([]byte, most), time.Minute); err != nil || len(m.Data) != len(large) {
			t.Errorf("%s: the largest message: %v", name, err)
		}
		cutOffBeyond(t, s, c.hello, most)
	}
}

func quickHash(t *testing.T, password string) string {
	t.Helper()
	hash := ledgertest.Must(bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost))
	return string(hash)
}

// greet connects without what the client's library keeps for each connection, and sends a greeting and a ping.
func greet(t *testing.T, s *Server, hello string) (net.Conn, *bufio.Scanner) {
	t.Helper()
	conn, err := net.Dial("tcp", s.ns.Addr().String())
	ledgertest.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	_, err = fmt.Fprintf(conn, "%s\r\nPING\r\n", hello)
	ledgertest.OK(t, err)
	return conn, bufio.NewScanner(conn)
}

// cutOffBeyond begins a message that is too large.
func cutOffBeyond(t *testing.T, s *Server, hello string, most int) {
	t.Helper()
	conn, lines := greet(t, s, hello)
	ledgertest.OK(t, conn.SetDeadline(time.Now().Add(ledgertest.Hang)))
	_, err := fmt.Fprintf(conn, "PUB svc %d\r\n", most+1)
	ledgertest.OK(t, err)
	told, violation := 0, ""
	for lines.Scan() && violation == "" {
		line := lines.Text()
		if info, ok := strings.CutPrefix(line, "INFO "); ok {
			var got struct {
				Most int `json:"max_payload"`
			}
			ledgertest.OK(t, json.Unmarshal([]byte(info), &got))
			told = got.Most
		}
		if strings.HasPrefix(line, "-ERR") {
			violation = line
		}
	}
	if told != most || !strings.Contains(violation, "Maximum Payload Violation") {
		t.Errorf("told %d; %q", told, violation)
	}
}
