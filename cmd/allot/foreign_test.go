package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestForeignMessages: foreign entries in the log of an external server are
// skipped, while the ledger runs and when it starts again. One that may be a damaged commit is refused, with a way out.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	ns := outside(t, t.TempDir(), natsserver.RANDOM_PORT, true)
	nc, err := nats.Connect(ns.ClientURL())
	must(t, err)
	defer nc.Close()
	write := func(data []byte) {
		t.Helper()
		if _, err := nc.Request("allot.log", data, startLimit); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"--nats-url", ns.ClientURL()}
	data := t.TempDir()
	s := launch(t, data, flags...)
	s.makeProvider(10)
	if _, err := os.Stat(filepath.Join(data, "log")); err == nil {
		t.Error("there is a log beside that of the external server")
	}
	write([]byte(`{"sequence":1,"result":[]}`))
	write([]byte("hello"))
	s.Must(http.StatusOK, "POST", "/resource_providers", `{"name":"while-it-runs"}`)
	write([]byte("at the end"))
	before := len(s.commandIDs())
	s.Kill()
	s = launch(t, data, flags...)
	const term = 1 // each start of a server on an external NATS begins a term
	if got := len(s.commandIDs()); got != before+term {
		t.Errorf("%d records, then %d", before, got)
	}
	commit := storedCommit(t, nc, 2)
	s.Kill()
	good := lastOf(t, nc)
	write(commit) // a copy of an old commit may be damage as well
	refused := start(t, data, flags...)
	err = refused.Wait()
	for _, wayOut := range []string{"allot repair --cut-after " + good, "allot restore --at " + good} {
		if err == nil || !strings.Contains(refused.Logs.String(), wayOut) {
			t.Errorf("the start does not say %q:\n%s", wayOut, refused.Logs)
		}
	}
}

// lastOf is the sequence of the log's last entry, in decimal.
func lastOf(t *testing.T, nc *nats.Conn) string {
	t.Helper()
	js, err := nc.JetStream()
	must(t, err)
	info, err := js.StreamInfo("ALLOT")
	must(t, err)
	return strconv.FormatUint(info.State.LastSeq, 10)
}

// storedCommit reads one message of the log.
func storedCommit(t *testing.T, nc *nats.Conn, sequence uint64) []byte {
	t.Helper()
	js, err := nc.JetStream()
	must(t, err)
	msg, err := js.GetMsg("ALLOT", sequence)
	must(t, err)
	return msg.Data
}
