package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/allot-project/allot/commands"
)

// LogFlags say which messages a program that serves writes to its standard error, and how.
type LogFlags struct {
	Level  slog.Level `help:"Least level of messages: debug, info, warn or error. At debug there is one for each request over HTTP." default:"info"`
	Format string     `help:"Form of messages: text, or json with one object a line." enum:"text,json" default:"text"`
}

// Logger returns the logger that everything in the server writes to, the NATS server included.
func (f LogFlags) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.Level}
	if f.Format == "json" {
		return slog.New(tracedMessages{slog.NewJSONHandler(to, options)})
	}
	return slog.New(tracedMessages{slog.NewTextHandler(to, options)})
}

// tracedMessages adds the id of the trace to messages about a request that is recorded.
type tracedMessages struct{ slog.Handler }

func (h tracedMessages) Handle(ctx context.Context, message slog.Record) error {
	if id := commands.TraceOf(ctx).ID(); id != "" {
		message.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, message)
}

func (h tracedMessages) WithAttrs(list []slog.Attr) slog.Handler {
	return tracedMessages{h.Handler.WithAttrs(list)}
}

func (h tracedMessages) WithGroup(name string) slog.Handler {
	return tracedMessages{h.Handler.WithGroup(name)}
}

// Warnings tells an operator at a terminal what is wrong.
func Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

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
	return Lines(func(line string) { fmt.Fprintf(os.Stderr, "%s: %s\n", what, line) }), func() {}
}

// lineEvery is the time between two lines of progress.
const lineEvery = 10 * time.Second

// Lines tells how far something is, every ten seconds.
func Lines(tell func(line string)) (show func(done, total uint64)) {
	var mu sync.Mutex
	last := time.Now()
	return func(done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) >= lineEvery {
			last = time.Now()
			tell(fmt.Sprintf("%d of %d", done, total))
		}
	}
}
