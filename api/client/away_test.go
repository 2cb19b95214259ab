package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestBarred: a user of a NATS server that may not send a request, or hear its answer, is
// told so after one try, whether it asks or submits, and does not wait as for a server
// that is away.
func TestBarred(t *testing.T) {
	t.Parallel()
	user := func(name string, publish, subscribe string) *natsserver.User {
		return &natsserver.User{Username: name, Password: name, Permissions: &natsserver.Permissions{
			Publish:   &natsserver.SubjectPermission{Deny: []string{publish}},
			Subscribe: &natsserver.SubjectPermission{Deny: []string{subscribe}},
		}}
	}
	ns, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true,
		Users: []*natsserver.User{user("mute", "allot.>", "x"), user("deaf", "x", "_INBOX.>"), user("free", "x", "x")},
	})
	ledgertest.OK(t, err)
	go ns.Start()
	t.Cleanup(ns.Shutdown)
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	for name, says := range map[string]string{"mute": "may not send that", "deaf": "may not hear answers", "free": ""} {
		quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		nc, err := nats.Connect(ns.ClientURL(), nats.UserInfo(name, name), quiet)
		ledgertest.OK(t, err)
		t.Cleanup(nc.Close)
		c := client.New(nc, client.Options{TryTimeout: 200 * time.Millisecond})
		for what, call := range map[string]func() error{
			"a query": func() error { _, err := c.Commits(t.Context(), wire.CommitsQuery{From: 1, Limit: 1}); return err },
			"a command": func() error {
				_, err := c.Submit(t.Context(), &commands.ReleaseConsumer{Consumer: commands.NewID()})
				return err
			},
			"a batch": func() error {
				_, err := c.SubmitAll(t.Context(), []client.Item{
					{ID: commands.NewID(), Command: &commands.ReleaseConsumer{Consumer: commands.NewID()}},
				})
				return err
			},
		} {
			failed := make(chan error, 1)
			go func() { failed <- call() }()
			select {
			case err := <-failed:
				if says == "" || !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %s: %v", name, what, err)
				}
				if unknown := errors.Is(err, client.ErrUnanswered); unknown != (name == "deaf") {
					t.Errorf("%s: %s may have been carried out: %v", name, what, unknown)
				}
			case <-time.After(map[bool]time.Duration{true: 200 * time.Millisecond, false: time.Minute}[says == ""]):
				if says != "" {
					t.Errorf("%s: %s waits", name, what)
				}
			}
		}
	}
}

// TestFollowWaitsForTheServer: a follower that begins while the server is away waits
// for it as long as its context allows, which is longer than one try.
func TestFollowWaitsForTheServer(t *testing.T) {
	nc, err := nats.Connect("nats://"+ledgertest.FreeAddress(t), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	ledgertest.OK(t, err)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	c := client.New(nc, client.Options{TryTimeout: 10 * time.Millisecond})
	err = c.Follow(ctx, client.Following{Of: wire.OfProject, Name: "p"}, func(wire.Notice) error { return nil })
	if ctx.Err() == nil {
		t.Errorf("it gave up: %v", err)
	}
}
