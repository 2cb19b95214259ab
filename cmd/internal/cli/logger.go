package cli

import (
	"context"
	"io"
	"log/slog"
	"os"

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
