package main

import (
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// TestBenchHistory makes a small history, and asks about it; what is answered is compared with
// what was done. Then it is made longer, in the same folder.
func TestBenchHistory(t *testing.T) {
	t.Parallel()
	data, archive := filepath.Join(t.TempDir(), "data"), t.TempDir()
	c := &benchHistoryCommand{
		Data: data, Commands: 1200, Live: 100, Providers: 20, UnderWay: 16, Questions: 50,
		serverFlags: ownServer(),
		Serve:       []string{"--archive", "file://" + archive, "--pace-part-records", "500", "--pace-part-age", "100ms"},
	}
	launchtest.Must(t, c.Run(t.Context()))
	c.Commands = 300
	launchtest.Must(t, c.Run(t.Context()))
	n, err := questionsTo("127.0.0.1:1").consumers(t.Context())
	if err == nil {
		t.Errorf("a server that is not there has %d consumers", n)
	}
}
