package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestListening: a new listener is noticed at once.
func TestListening(t *testing.T) {
	s := listen(t, Config{Streams: []string{"allot.notice.>"}})
	kinds := []string{"consumer", "project"}
	for subject, want := range map[string][]string{
		"_INBOX.x": {}, "allot.notice.heartbeat": {}, "allot.notice.consumer.x": {"consumer"}, "allot.notice.>": kinds,
		"allot.notice.*.x":       kinds,
		"allot.notice.project.*": {"project"},
	} {
		nc, err := nats.Connect(s.ClientURL())
		ledgertest.OK(t, err)
		s.listening.at = time.Time{} // a listener that has gone is noticed only within a second
		_, err = nc.SubscribeSync(subject)
		ledgertest.OK(t, err, nc.Flush())
		if got := s.Listening("allot.notice", kinds); !slices.Equal(got, want) {
			t.Errorf("%s: %v", subject, got)
		}
		nc.Close()
		ledgertest.WaitFor(t, "the client to go", func() bool { return s.ns.NumClients() == 0 })
	}
	s.replica = true // clients of other servers may listen on anything
	if got := s.Listening("allot.notice", kinds); !slices.Equal(got, kinds) {
		t.Errorf("in a cluster: %v", got)
	}
}
