package cli

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger/embedded"
)

// LogFlags say which messages a program that serves writes to its standard error, and how.
type LogFlags struct {
	Level  slog.Level `help:"Least level of messages: debug, info, warn or error." default:"info"`
	Format string     `help:"Form of messages: text, or json with one object a line." enum:"text,json" default:"text"`
	Access bool       `help:"Write a message for each request over HTTP."`
}

// Logger returns the logger that everything in the server writes to, the NATS
// server included.
func (f LogFlags) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.Level}
	if f.Format == "json" {
		return slog.New(tracedMessages{slog.NewJSONHandler(to, options)})
	}
	return slog.New(tracedMessages{slog.NewTextHandler(to, options)})
}

// tracedMessages adds the id of the trace to messages about a request that is
// recorded.
type tracedMessages struct{ slog.Handler }

// Handle implements slog.Handler.
func (h tracedMessages) Handle(ctx context.Context, message slog.Record) error {
	if id := commands.TraceOf(ctx).ID(); id != "" {
		message.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, message)
}

// WithAttrs implements slog.Handler.
func (h tracedMessages) WithAttrs(list []slog.Attr) slog.Handler {
	return tracedMessages{h.Handler.WithAttrs(list)}
}

// WithGroup implements slog.Handler.
func (h tracedMessages) WithGroup(name string) slog.Handler {
	return tracedMessages{h.Handler.WithGroup(name)}
}

// ErrorLog is where net/http writes what connections do wrong, and what it did itself.
func ErrorLog(logger *slog.Logger) *log.Logger {
	return log.New(&connectionLines{logger, embedded.NewFewLines()}, "", 0)
}

// connectionLines keeps clients from filling the log, as with handshakes that fail.
type connectionLines struct {
	logger *slog.Logger
	few    *embedded.FewLines
}

// Write implements io.Writer. A line is written at a time.
func (l *connectionLines) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if _, what, _ := strings.Cut(text, ": "); strings.HasPrefix(what, "panic serving") { // it has to be found
		l.logger.Error(text)
	} else if leftOut, may := l.few.Next(); may {
		l.logger.Warn(embedded.Shortened(text), "left_out", leftOut)
	}
	return len(line), nil
}
