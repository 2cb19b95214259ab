package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestForeignMessages: foreign entries in the log of an external server are
// skipped, while the ledger runs and when it starts again. One that may be a damaged commit is refused, with a way out.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	ns := outside(t)
	nc := dial(t, ns.ClientURL())
	js, err := nc.JetStream()
	must(t, err)
	write := func(data []byte) {
		t.Helper()
		if _, err := nc.Request("allot.log", data, hang); err != nil {
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
	commit, err := js.GetMsg("ALLOT", 2)
	must(t, err)
	s.Kill()
	info, err := js.StreamInfo("ALLOT")
	must(t, err)
	good := fmt.Sprint(info.State.LastSeq)
	write(commit.Data) // a copy of an old commit may be damage as well
	start(t, data, flags...).Refuses("allot repair --cut-after "+good, "allot restore --at "+good)
}
