package natsapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger/embedded"
)

// TestBodiesHaveAPace: beyond their pace, bodies wait before anything is done with them,
// those that are to be refused, too; small ones never wait.
func TestBodiesHaveAPace(t *testing.T) {
	t.Parallel()
	const body, room = 20 << 10, 256 << 10
	for name, send := range map[string]struct {
		subject, body string
	}{
		"queries":           {wire.QueryPrefix + ".Usages", `{"project":"` + strings.Repeat("p", body) + `"}`},
		"commands":          {wire.CommandPrefix + ".AllocateForConsumers", `{"x":"` + strings.Repeat("x", body) + `"}`},
		"what is too large": {wire.QueryPrefix + ".Usages", strings.Repeat("x", embedded.DefaultPayload-1000)},
		"what is weighed":   {wire.CommandPrefix + ".Reshape", strings.Repeat("x", embedded.DefaultPayload-1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t) // its end does not wait for the pace
			client := d.client
			d.service.EndPace(room)
			answers := make(chan *nats.Msg, 1)
			inbox := nats.NewInbox()
			if _, err := client.ChanSubscribe(inbox, answers); err != nil {
				t.Fatal(err)
			}
			sends := func() {
				msg := nats.NewMsg(send.subject)
				msg.Reply, msg.Data = inbox, []byte(send.body)
				msg.Header.Set(wire.HeaderCommandID, commandstest.NewID().String())
				if err := client.PublishMsg(msg); err != nil {
					t.Fatal(err)
				}
			}
			for range room / len(send.body) {
				sends()
				<-answers
			}
			sends()
			for range 200 {
				if _, err := client.Request(wire.QueryPrefix+".Usages", []byte(`{"project":"p"}`), 5*time.Minute); err != nil {
					t.Fatalf("a small one: %v", err)
				}
			}
			select {
			case answer := <-answers:
				t.Errorf("one more than may come was answered: %.200s", answer.Data)
			default:
			}
		})
	}
}
