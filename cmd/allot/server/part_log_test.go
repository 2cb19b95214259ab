package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// onNATS is the log of a cluster of three whose NATS runs, with its connection, and nothing else.
func onNATS(t *testing.T) *logPart {
	t.Helper()
	s := newServer(&Command{Cluster: clusterFlags{Members: []string{"a:1", "b:1", "c:1"}, Name: "a"}}, slog.New(slog.DiscardHandler))
	s.verdict.Verdict = &blocks.Verdict{}
	var err error
	if s.nats.Server, err = embedded.Start(t.Context(), embedded.Config{StoreDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nats.Shutdown)
	if s.log.nc, err = s.nats.Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.log.nc.Close)
	return s.log
}

// TestFewReplicas: a cluster's server refuses a log that would be lost with one
// of its servers.
func TestFewReplicas(t *testing.T) {
	l := onNATS(t)
	if _, err := jetstream.Open(t.Context(), l.nc, jetstream.Config{MayCreate: true, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := l.openShared(ctx, jetstream.Config{})
	if err == nil || !strings.Contains(err.Error(), "the log has 1 replicas, but with 3 servers it needs 3") ||
		!strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("%v", err)
	}
}

// TestStrangeStream: it refuses a stream that would not keep a log as it is, at
// once, instead of waiting for a better one.
func TestStrangeStream(t *testing.T) {
	l := onNATS(t)
	js, err := l.nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.AddStream(&nats.StreamConfig{
		Name: jetstream.DefaultStream, Subjects: []string{jetstream.Subject}, MaxMsgs: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = l.openShared(ctx, jetstream.Config{})
	if !errors.Is(err, ledger.ErrLogUnsafe) || !strings.Contains(err.Error(), "The stream of that name is not Allot's") {
		t.Errorf("%v", err)
	}
}
