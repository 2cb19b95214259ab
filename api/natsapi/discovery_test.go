package natsapi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/commands"
)

// TestDiscoveryIsAnsweredOnce: what clients ask to discover the service is answered as the
// library would, beside all other requests, also by a second service on the connection.
func TestDiscoveryIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	l, ns, nc := connectDoor(t)
	client := dial(t, ns.ClientURL())
	for range 2 { // a second time on the same connection
		svc, err := natsapi.Start(nc, configOf(l, natsapi.Config{
			Trace: func(natsapi.Name, func(string) string) (*commands.Trace, func(string)) { // of every request
				return &commands.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, func(string) {}
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 10, 100_000} {
			for _, subject := range []string{
				"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.INFO.allot", "$SRV.PING.allot", "$SRV.INFO.other", "$SRV.PING.allot.x", "$SRV.x",
				"allot.query.Usages", "allot.query.Provider", "allot.batch", "allot.command.CreateTrait",
			} {
				asked := client.PublishRequest(subject, nats.NewInbox(), make([]byte, size))
				if err := errors.Join(asked, client.Publish(subject, make([]byte, size))); err != nil { // to no one's inbox
					t.Fatal(err)
				}
			}
		}
		if _, err := client.Request("allot.query.Usages", []byte(`{"project":"p"}`), time.Minute); err != nil {
			t.Fatal(err)
		}
		// Each kind is answered once, as the library would.
		for subject, answers := range map[string]int{
			"$SRV.PING": 1, "$SRV.INFO": 1, "$SRV.STATS.allot": 1, "$SRV.INFO.other": 0, "$SRV.PING.allot.x": 0, "$SRV.x": 0,
		} {
			inbox := nats.NewInbox()
			sub, err := client.SubscribeSync(inbox)
			if err == nil {
				err = client.PublishRequest(subject, inbox, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range answers {
				if _, err := sub.NextMsg(time.Minute); err != nil {
					t.Fatalf("%s: %v", subject, err)
				}
			}
			// Nothing more has come by the time that a later request is answered.
			kind, _, _ := strings.Cut(strings.TrimPrefix(subject, "$SRV."), ".")
			if kind == "x" {
				kind = "PING"
			}
			if _, err := client.Request("$SRV."+kind+".allot", nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			if n, _, err := sub.Pending(); err != nil || n != 0 {
				t.Errorf("%s: %d answers more than %d, %v", subject, n, answers, err)
			}
		}
		if err := svc.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
