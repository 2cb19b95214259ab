package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// ProgressBar shows progress on a terminal.
func ProgressBar(what string) (show func(done, total uint64), end func()) {
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
		if total != uint64(bar.GetMax64()) {
			bar.ChangeMax64(int64(total)) // more was found meanwhile
		}
		_ = bar.Set64(int64(done)) // a lost terminal is no reason to stop
	}
	return show, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}

// Progress is ProgressBar with lines where there is no terminal, for commands that print no
// messages of their own meanwhile.
func Progress(what string) (show func(done, total uint64), end func()) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return ProgressBar(what)
	}
	return Lines(func(line string) { fmt.Fprintf(os.Stderr, "%s: %s\n", what, line) }, time.Now), func() {}
}

// lineEvery is the time between two lines of progress.
const lineEvery = 10 * time.Second

// Lines tells how far something is, every ten seconds.
func Lines(tell func(line string), now func() time.Time) (show func(done, total uint64)) {
	var mu sync.Mutex
	last := now()
	return func(done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		if at := now(); at.Sub(last) >= lineEvery {
			last = at
			tell(fmt.Sprintf("%d of %d", done, total))
		}
	}
}
