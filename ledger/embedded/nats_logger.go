package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/allot-project/allot/commands/fair"
)

// natsLogger passes NATS's log lines on. Routine notices become debug lines.
type natsLogger struct {
	log         *slog.Logger
	last        atomic.Value            // the last error
	broken      context.Context         // ends when a store could not write, and says why
	breaks      context.CancelCauseFunc // ends it
	joinRefused joinRefused
	fatal       chan error     // the first error after which the server cannot go on
	clients     *fair.FewLines // about clients
	routes      *fair.FewLines // about who connects as a server
}

func newNATSLogger(log *slog.Logger) *natsLogger {
	l := &natsLogger{log: log, fatal: make(chan error, 1), clients: fair.NewFewLines(), routes: fair.NewFewLines()}
	l.broken, l.breaks = context.WithCancelCause(context.Background())
	return l
}

// lastError is the last error that NATS logged, for messages about a failed start.
func (l *natsLogger) lastError() error {
	err, _ := l.last.Load().(error)
	return err
}

func (l *natsLogger) line(level slog.Level, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if strings.HasPrefix(text, "TLS certificate chain and hostname of solicited routes will not be verified") {
		return // SecretTLS compares keys instead
	}
	few := l.about(text)
	if few == l.routes && strings.Contains(text, ` - Unknown account "`+anonymousAccount) {
		level = slog.LevelDebug // a connection to another server, which has an account of its own there
	}
	if level >= slog.LevelError {
		l.last.Store(errors.New(strings.TrimSpace(text)))
		l.noteBroken(text)
		l.joinRefused.note(text)
	}
	if few == nil || level < slog.LevelWarn {
		l.log.Log(context.Background(), level, text, "from", "nats")
		return
	}
	if leftOut, may := few.Next(); may {
		l.log.Log(context.Background(), level, fair.Shortened(text), "from", "nats", "left_out", leftOut)
	}
}

// about returns what bounds a line that a connection has caused; nil: none has. NATS has
// the address and the number of the connection at the line's beginning.
func (l *natsLogger) about(text string) *fair.FewLines {
	switch begin := text[:min(len(text), 128)]; {
	case strings.Contains(begin, " - cid:"):
		return l.clients
	case strings.Contains(begin, " - rid:"):
		return l.routes
	}
	return nil
}

func (l *natsLogger) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *natsLogger) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }
func (l *natsLogger) Errorf(format string, v ...any)  { l.line(slog.LevelError, format, v) }
func (l *natsLogger) Debugf(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }
func (l *natsLogger) Tracef(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }

// Fatalf implements server.Logger. The process goes on; Start returns the error.
func (l *natsLogger) Fatalf(format string, v ...any) {
	l.line(slog.LevelError, format, v)
	select {
	case l.fatal <- l.lastError():
	default:
	}
}
