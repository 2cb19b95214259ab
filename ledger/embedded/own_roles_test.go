package embedded

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestOwnRoles: none of the process's connections can do what another one is for.
func TestOwnRoles(t *testing.T) {
	t.Parallel()
	s := listen(t, Config{
		Services: []string{"svc.>"}, Streams: []string{"news.>"}, Logger: slog.New(slog.DiscardHandler),
	})
	may := map[string]map[string]bool{
		"log":     {"allot.log": true, "allot.rejected": true, "$JS.API.INFO": true},
		"door":    {"_R_.x": true},
		"notices": {"news.x": true},
	}
	for name, connect := range map[string]func() (*nats.Conn, error){"log": s.Connect, "door": s.ConnectDoor, "notices": s.ConnectNotices} {
		for _, subject := range []string{"allot.log", "allot.rejected", "$JS.API.INFO", "_R_.x", "news.x", "svc.x", "_INBOX.x", "$SYS.REQ.SERVER.PING", "x"} {
			nc, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := nc.LastError() == nil; got != may[name][subject] {
				t.Errorf("%s publishes on %s: %v", name, subject, nc.LastError())
			}
			nc.Close()
		}
	}
}
