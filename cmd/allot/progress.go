package main

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/writer"
)

// longReplay is the number of commits from which on a replay is worth a message.
const longReplay = 1000

// replayProgress shows the progress of a replay: a bar on a terminal, otherwise a
// line at the end of a long replay.
func replayProgress(logger *slog.Logger) (progress writer.Progress, end func()) {
	begun := time.Now()
	show, endBar := cli.ProgressBar("replaying")
	var commits uint64
	progress = func(done, total uint64) {
		commits = done
		if total < longReplay {
			return
		}
		show(done, total)
	}
	end = func() {
		endBar()
		if commits >= longReplay {
			logger.Info("replayed", "commits", commits, "took", time.Since(begun).Round(time.Millisecond))
		}
	}
	return progress, end
}

// longCheck is the number of bytes from which on a check is worth a message.
const longCheck = 1 << 30

// checkProgress shows the progress of the check of the log's files.
func checkProgress(logger *slog.Logger) (progress func(done, total uint64), end func()) {
	begun := time.Now()
	show, endBar := cli.ProgressBar("checking the log")
	var bytes atomic.Uint64
	progress = func(done, total uint64) {
		bytes.Store(done)
		if total >= longCheck {
			show(done, total)
		}
	}
	end = func() {
		endBar()
		if bytes.Load() >= longCheck {
			logger.Info("the log's files are good", "bytes", bytes.Load(), "took", time.Since(begun).Round(time.Millisecond))
		}
	}
	return progress, end
}
