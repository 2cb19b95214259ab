package server

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
)

// longReplay is the number of commits, and longCheck that of bytes, from which on a replay, and a
// check of the log's files, are worth a message.
const (
	longReplay = 1000
	longCheck  = 1 << 30
)

// progress shows how far something has come: a bar on a terminal, and a line at the end, if it is long.
func progress(logger *slog.Logger, doing, ended, unit string, long uint64) (tell func(done, total uint64), end func()) {
	begun := time.Now()
	show, endBar := cli.ProgressBar(doing)
	var reached atomic.Uint64
	tell = func(done, total uint64) {
		reached.Store(done)
		if total >= long {
			show(done, total)
		}
	}
	end = func() {
		endBar()
		if reached.Load() >= long {
			logger.Info(ended, unit, reached.Load(), "took", time.Since(begun).Round(time.Millisecond))
		}
	}
	return tell, end
}

type waiting struct {
	atomic.Pointer[string] // nil: nothing that takes long
	logger                 *slog.Logger
}

// tellAgain is how often it is told what is waited for.
const tellAgain = 5 * time.Second

// tell tells what a start waits for, and why: at /readyz each time, and in the log now and then.
func (w *waiting) tell(what string) func(why string) {
	var told time.Time
	return func(why string) {
		text := what + ": " + why
		w.Store(&text)
		if time.Since(told) >= tellAgain {
			told = time.Now()
			w.logger.Info(what, "because", why)
		}
	}
}
