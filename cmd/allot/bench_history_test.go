package main

import (
	"log/slog"
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
	soon := 100 * time.Millisecond
	c := &benchHistoryCommand{
		Data: data, Commands: 4000, Live: 100, Providers: 20, UnderWay: 16, Settle: 3 * time.Second, Questions: 200,
		Archive: archiveFlags{
			URL: []string{"file://" + archive}, PartRecords: 500, PartBytes: 1 << 20, PartAge: soon, Cache: 1 << 20,
			HotAge: &soon, History: &soon, HistoryLeast: 500,
		},
		Log: logFlags{Level: slog.LevelError, Format: "text"},
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
