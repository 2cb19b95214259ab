package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestServersOnOneNATSElect: a server on an external NATS takes part in the election, though no flag says that there
// are others, under a name of its own.
func TestServersOnOneNATSElect(t *testing.T) {
	var one, two clusterFlags
	ledgertest.OK(t, errors.Join(one.fill("/data/one", true), two.fill("/data/two", true)))
	if !one.shared() || !two.shared() || one.Name == two.Name || strings.ContainsAny(one.Name, notInNames) {
		t.Errorf("%+v, %+v", one, two)
	}
}

// TestFewReplicas: a cluster's server refuses a log that would be lost with one
// of its servers.
func TestFewReplicas(t *testing.T) {
	s := newServer(&Command{Cluster: clusterFlags{Members: []string{"a:1", "b:1", "c:1"}, Name: "a"}}, slog.New(slog.DiscardHandler))
	s.verdict.Verdict = &blocks.Verdict{}
	var err error
	s.nats.Server, err = embedded.Start(t.Context(), embedded.Config{StoreDir: t.TempDir()})
	ledgertest.OK(t, err)
	t.Cleanup(s.nats.Shutdown)
	s.log.nc, err = s.nats.Connect()
	ledgertest.OK(t, err)
	t.Cleanup(s.log.nc.Close)
	_, err = jetstream.Open(t.Context(), s.log.nc, jetstream.Config{MayCreate: true, Replicas: 1})
	ledgertest.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = s.log.openShared(ctx, jetstream.Config{})
	launchtest.Says(t, fmt.Sprint(err), "the log has 1 replicas, but with 3 servers it needs 3", "nothing was changed")
}

// TestOldServer: a NATS server with known faults is refused at the start, and when the connection
// moves to it later.
func TestOldServer(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string][]string{"at the start": {"2.9.25"}, "later": {jetstream.OldestServer, "2.9.25"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			ledgertest.OK(t, err)
			defer func() { _ = listener.Close() }() // the test ends
			first := make(chan net.Conn, 1)
			go func() {
				for _, version := range versions {
					conn, err := listener.Accept()
					if err != nil {
						return // the test has ended
					}
					first <- conn
					_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"A\",\"version\":%q,\"max_payload\":1048576,\"headers\":true}\r\n", version)
					go func() {
						for lines := bufio.NewScanner(conn); lines.Scan(); {
							if lines.Text() == "PING" {
								_, _ = fmt.Fprint(conn, "PONG\r\n") // or the client finds out
							}
						}
					}()
				}
			}()
			s := newServer(&Command{NATSURL: "nats://" + listener.Addr().String()}, slog.New(slog.DiscardHandler))
			err = s.log.connect(t.Context())
			if len(versions) > 1 {
				ledgertest.OK(t, err)
				defer s.log.nc.Close()
				_ = (<-first).Close() // the client connects again
				err = s.log.watch()
			}
			if !errors.Is(err, jetstream.ErrOldServer) || !strings.Contains(err.Error(), "run "+jetstream.OldestServer+" or newer") {
				t.Error(err)
			}
		})
	}
}
