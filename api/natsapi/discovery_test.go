package natsapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/commands"
)

// TestUnseen: the door knows exactly how many messages it has not looked at,
// whatever has come: requests that are answered, refused or passed over, and
// discovery, which is answered as the library does, but in turn.
func TestUnseen(t *testing.T) {
	t.Parallel()
	l, ns, nc := connectDoor(t)
	start := func() *natsapi.Service {
		svc, err := natsapi.Start(nc, configOf(l, natsapi.Config{
			CutOff: func(connection uint64) { t.Errorf("%d is cut off", connection) },
			Trace: func(natsapi.Name, func(string) string) (*commands.Trace, func(string)) { // of every request
				return &commands.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, func(string) {}
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		return svc
	}
	client, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for range 2 { // a second time on the same connection
		svc := start()
		for i := range 20 {
			for _, subject := range []string{
				"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.INFO.allot", "$SRV.PING.allot", "$SRV.INFO.other", "$SRV.PING.allot.x", "$SRV.x",
				"allot.query.Usages", "allot.query.Provider", "allot.batch", "allot.command.CreateTrait",
			} {
				body := make([]byte, []int{0, 10, 100_000}[i%3])
				if err := client.PublishRequest(subject, nats.NewInbox(), body); err != nil {
					t.Fatal(err)
				}
				if err := client.Publish(subject, body); err != nil { // nobody is told
					t.Fatal(err)
				}
			}
		}
		if _, err := client.Request("allot.query.Usages", []byte(`{"project":"p"}`), time.Minute); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); svc.Unseen() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d are unseen", svc.Unseen())
			}
		}
		// Each kind is answered once, as the library would.
		for subject, answers := range map[string]int{
			"$SRV.PING": 1, "$SRV.INFO": 1, "$SRV.STATS.allot": 1, "$SRV.INFO.other": 0, "$SRV.PING.allot.x": 0, "$SRV.x": 0,
		} {
			inbox := nats.NewInbox()
			sub, err := client.SubscribeSync(inbox)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.PublishRequest(subject, inbox, nil); err != nil {
				t.Fatal(err)
			}
			// What is sent later is answered later, as all of this is looked at in turn.
			kind, _, _ := strings.Cut(strings.TrimPrefix(subject, "$SRV."), ".")
			if kind == "x" {
				kind = "PING"
			}
			if _, err := client.Request("$SRV."+kind+".allot", nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			if n, _, err := sub.Pending(); err != nil || n != answers {
				t.Errorf("%s: %d answers, want %d, %v", subject, n, answers, err)
			}
		}
		if err := svc.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDescriptionsArePaced: a client gets so many descriptions in a second, and is told to
// wait for others; pings, which are small, it gets all. Each request is answered once.
func TestDescriptionsArePaced(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0) // which does not move
	client := openWith(t, natsapi.Config{
		CutOff: func(connection uint64) { t.Errorf("%d is cut off", connection) },
		Now:    func() time.Time { return now },
	}).client
	const many = 150
	for subject, want := range map[string]int{"$SRV.PING.allot": many, "$SRV.INFO.allot": 100} {
		inbox := nats.NewInbox()
		sub, err := client.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		for range many {
			if err := client.PublishRequest(subject, inbox, nil); err != nil {
				t.Fatal(err)
			}
		}
		given := 0
		for n := range many {
			msg, err := sub.NextMsg(time.Minute)
			if err != nil {
				t.Fatalf("%s: answer %d: %v", subject, n, err)
			}
			if msg.Header.Get("Nats-Service-Error-Code") == "" {
				given++
			} else if !strings.Contains(string(msg.Data), `"retry_after_ms":200`) {
				t.Fatalf("%s: %s", subject, msg.Data)
			}
		}
		if given != want {
			t.Errorf("%s: %d of %d are answered, and not %d", subject, given, many, want)
		}
		if _, err := sub.NextMsg(10 * time.Millisecond); err == nil {
			t.Errorf("%s: one was answered twice", subject)
		}
	}
}

// TestDescriptionsWithoutAnEndAreCutOff: a client that asks for a thousand descriptions
// within a second, of which nearly all are refused, is cut off, once. Who asks for fewer,
// or for signs of life, is not.
func TestDescriptionsWithoutAnEndAreCutOff(t *testing.T) {
	t.Parallel()
	const most = 1000
	for _, c := range []struct {
		subject string
		times   int
		want    bool
	}{
		{"$SRV.INFO.allot", most - 1, false},
		{"$SRV.INFO.allot", most + 500, true},
		{"$SRV.STATS", most + 500, true},
		{"$SRV.PING.allot", most + 500, false},
		{"$SRV.INFO.another", most + 500, false}, // nobody answers these
	} {
		t.Run(fmt.Sprint(c.times, " ", c.subject), func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0) // which does not move
			cut := make(chan uint64, 10)
			d := openWith(t, natsapi.Config{
				CutOff: func(connection uint64) { cut <- connection },
				Now:    func() time.Time { return now },
			})
			before := d.service.Came()
			for range c.times {
				if err := d.client.PublishRequest(c.subject, "_INBOX.x", nil); err != nil {
					t.Fatal(err)
				}
			}
			for deadline := time.Now().Add(time.Minute); d.service.Came() < before+c.times || d.service.Unseen() > 0; {
				if time.Now().After(deadline) {
					t.Fatalf("%d have come, and %d are unseen", d.service.Came()-before, d.service.Unseen())
				}
				time.Sleep(time.Millisecond)
			}
			id, err := d.client.GetClientID()
			if err != nil {
				t.Fatal(err)
			}
			var want []uint64
			if c.want {
				want = []uint64{id}
			}
			var got []uint64
			for len(cut) > 0 {
				got = append(got, <-cut)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v are cut off, and not %v", got, want)
			}
		})
	}
}
