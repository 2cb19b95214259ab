package cli

import (
	"os"
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
		_ = bar.Set64(int64(done)) // a lost terminal is no reason to stop
	}
	return show, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}
