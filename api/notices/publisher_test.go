package notices_test

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/logtest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestLostWaysMakeFollowersRead: when a connection to another server was lost, the mark changes, so
// that followers there read what they were not told.
func TestLostWaysMakeFollowersRead(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	ns, _ := logtest.StartNATS(t, embedded.Config{
		StoreDir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, Streams: []string{wire.NoticePrefix + ".>"},
	})
	client, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	beats, err := client.SubscribeSync(wire.HeartbeatSubject)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ns.ConnectNotices()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var lost atomic.Uint64
	publisher := notices.Start(l.Views, notices.Config{
		Conn: conn, Ledger: ledger.UUID{1}, Ways: func() [2]uint64 { return [2]uint64{0, lost.Load()} },
		Logger: slog.New(slog.DiscardHandler),
	})
	defer publisher.Stop()
	mark := func() string {
		m, err := beats.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var beat wire.Heartbeat
		if err := json.Unmarshal(m.Data, &beat); err != nil {
			t.Fatal(err)
		}
		return beat.Mark
	}
	first, second := mark(), mark()
	if first != second {
		t.Error("the mark changed, and nothing was lost")
	}
	lost.Add(1)
	for range 2 { // one may be under way
		second = mark()
	}
	if first == second {
		t.Error("the mark stays although notices may have been lost")
	}
}
