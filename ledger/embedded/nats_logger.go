package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// natsLogger passes NATS's log lines on. Routine notices become debug lines.
type natsLogger struct {
	log       *slog.Logger
	last      errorLine
	store     string // the store's folder
	trouble   trouble
	unwelcome unwelcome
	fatal     chan error // the first error after which the server cannot go on
}

func newNATSLogger(log *slog.Logger, store string) *natsLogger {
	return &natsLogger{log: log, store: store, fatal: make(chan error, 1)}
}

func (l *natsLogger) lastError() error { return l.last.get() }

func (l *natsLogger) line(level slog.Level, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if level >= slog.LevelError {
		l.last.set(errors.New(strings.TrimSpace(text)))
		l.trouble.note(text, l.store)
		l.unwelcome.note(text)
	}
	l.log.Log(context.Background(), level, text, "from", "nats")
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
