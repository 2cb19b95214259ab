package main

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/allot-project/allot/commands/writer"
)

// longReplay is the number of commits from which on a replay is worth a message.
const longReplay = 1000

// replayProgress shows the progress of a replay: a bar on a terminal, otherwise a
// line at the end of a long replay.
func replayProgress(logger *slog.Logger) (progress writer.Progress, end func()) {
	begun := time.Now()
	show, endBar := progressBar("replaying")
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
	show, endBar := progressBar("checking the log")
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

// progressBar shows progress on a terminal.
func progressBar(what string) (show func(done, total uint64), end func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func(uint64, uint64) {}, func() {}
	}
	var bar *progressbar.ProgressBar
	show = func(done, total uint64) {
		if bar == nil {
			bar = progressbar.NewOptions64(int64(total), progressbar.OptionSetDescription(what),
				progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = bar.Set64(int64(done)) // a lost terminal is no reason to stop
	}
	return show, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}
