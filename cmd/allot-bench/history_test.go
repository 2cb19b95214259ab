package main

import (
	"path/filepath"
	"testing"
	"time"
)

// TestBenchHistory makes a small history of which nearly all has left the log and the read
// models when it is asked about; what is answered is compared with what was done. Then it is
// made longer, in the same folder.
func TestBenchHistory(t *testing.T) {
	t.Parallel()
	data, archive := filepath.Join(t.TempDir(), "data"), t.TempDir()
	c := &benchHistoryCommand{
		Data: data, Commands: 4000, Live: 100, Providers: 20, UnderWay: 16, Settle: 3 * time.Second, Questions: 200,
		serverFlags: ownServer(),
		Serve: []string{
			"--archive", "file://" + archive, "--archive-part-records", "500", "--archive-part-age", "100ms",
			"--hot-history", "100ms", "--hot-history-records", "500",
		},
	}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(archive, "past", "*", "*")); err != nil || len(left) < 2 {
		t.Errorf("%d files of past versions: %v", len(left), err)
	}
	c.Commands, c.Settle = 1000, 0
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := (historyQuestions{url: "http://127.0.0.1:1"}).consumers(t.Context())
	if err == nil {
		t.Errorf("a server that is not there has %d consumers", n)
	}
}
