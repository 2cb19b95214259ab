package natsapi_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/commands/writer"
)

// holding carries commands out, but for claims of the project "eve", which it holds as
// if they were searched for without an end.
type holding struct {
	*writer.Writer
	mu   sync.Mutex
	ends []func(commands.Outcome, error) // guarded by mu; nil once all are told
	over bool                            // guarded by mu
	// clients has the projects of the claims that came, by client. Guarded by mu.
	clients map[string]string
}

// Start implements commands.Starter.
func (h *holding) Start(s commands.Submission, done func(commands.Outcome, error)) {
	h.note(s)
	for _, claim := range commands.Claims(s.Command) {
		if claim.For[0].Project == "eve" {
			h.hold(done)
			return
		}
	}
	h.Writer.Start(s, done)
}

// Submit implements commands.Starter.
func (h *holding) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	h.note(s)
	if claims := commands.Claims(s.Command); len(claims) == 0 || claims[0].For[0].Project != "eve" {
		return h.Writer.Submit(ctx, s)
	}
	done := make(chan error, 1)
	h.hold(func(_ commands.Outcome, err error) { done <- err })
	return commands.Outcome{}, <-done
}

// note notes whose claim came.
func (h *holding) note(s commands.Submission) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, claim := range commands.Claims(s.Command) {
		project := claim.For[0].Project
		if known, found := h.clients[s.Client]; found && known != project {
			project = "of two connections"
		}
		h.clients[s.Client] = project
	}
}

// projects returns the project of each client whose claims came, sorted.
func (h *holding) projects() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Values(h.clients))
}

func (h *holding) hold(done func(commands.Outcome, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		done(commands.Outcome{}, commands.ErrStopped)
		return
	}
	h.ends = append(h.ends, done)
}

func (h *holding) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ends)
}

func (h *holding) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, done := range h.ends {
		done(commands.Outcome{}, commands.ErrStopped)
	}
	h.ends, h.over = nil, true
}

// TestSearchesTakeNoPlaceOfOthers: a client whose claims, alone or in batches, take for
// ever to search keeps neither commands nor claims of others waiting.
func TestSearchesTakeNoPlaceOfOthers(t *testing.T) {
	t.Parallel()
	l, ns, nc := connectDoor(t)
	h := &holding{Writer: l.Writer, clients: make(map[string]string)}
	svc, err := natsapi.Start(nc, configOf(l, natsapi.Config{Commands: h}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		h.end()
		if err := svc.Stop(); err != nil {
			t.Error(err)
		}
	}()
	dial := func() *nats.Conn {
		nc, err := nats.Connect(ns.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	const claim = `{"for":[{"consumer":"%s","project":"%s","user":"u"}],"requests":[{"groups":[{"resources":{"VCPU":1}}]}]}`
	send := func(nc *nats.Conn, project string, inBatch bool, inbox string) {
		t.Helper()
		msg := nats.NewMsg(wire.CommandPrefix + ".Claim")
		msg.Data, msg.Reply = fmt.Appendf(nil, claim, commands.NewID(), project), inbox
		msg.Header.Set("Allot-Command-Id", commands.NewID().String())
		if inBatch {
			msg.Subject = wire.BatchSubject
			msg.Data = fmt.Appendf(nil, `{"atomic":true,"commands":[{"command":"Claim","body":%s}]}`, msg.Data)
		}
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	eve, bob := dial(), dial()
	const flood = 2000
	var answered atomic.Int64
	inbox := nats.NewInbox()
	if _, err := eve.Subscribe(inbox, func(*nats.Msg) { answered.Add(1) }); err != nil {
		t.Fatal(err)
	}
	for i := range flood {
		send(eve, "eve", i%4 == 0, inbox)
	}
	if err := eve.Flush(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); h.held() < 700 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := h.held(); n < 700 || n > 1000 {
		t.Fatalf("%d of a client are under way, and not three quarters of 1,024", n)
	}
	replies, err := bob.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		msg := nats.NewMsg("allot.command.CreateTrait")
		msg.Data, msg.Reply = fmt.Appendf(nil, `{"name":"CUSTOM_%d"}`, i), replies.Subject
		msg.Header.Set("Allot-Command-Id", commands.NewID().String())
		if err := bob.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		send(bob, "bob", i%2 == 0, replies.Subject)
		for range 2 {
			msg, err := replies.NextMsg(20 * time.Second)
			if err != nil {
				t.Fatalf("another client is not answered: %v", err)
			}
			if text := string(msg.Data); !strings.Contains(text, `"sequence"`) && !strings.Contains(text, "no_candidates") {
				t.Errorf("%s", text)
			}
		}
	}
	if n := answered.Load(); n > 0 {
		t.Errorf("%d were answered, and nothing has come to its end", n)
	}
	// Both connections are of the same user, and take turns in the search nevertheless.
	if projects := h.projects(); !slices.Equal(projects, []string{"bob", "eve"}) {
		t.Errorf("claims of two connections came as if of %v", projects)
	}
	h.end()
	for end := time.Now().Add(time.Minute); answered.Load() < flood && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := answered.Load(); n != flood {
		t.Errorf("%d of %d were answered in the end", n, flood)
	}
}
