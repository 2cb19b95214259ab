package port

import (
	"log"
	"log/slog"
	"strings"

	"github.com/allot-project/allot/commands/fair"
)

// ErrorLog is where net/http writes what connections do wrong, and what it did itself.
func ErrorLog(logger *slog.Logger) *log.Logger {
	return log.New(&connectionLines{logger, fair.NewFewLines()}, "", 0)
}

// connectionLines keeps clients from filling the log, as with handshakes that fail.
type connectionLines struct {
	logger *slog.Logger
	few    *fair.FewLines
}

// Write implements io.Writer. A line is written at a time.
func (l *connectionLines) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if _, what, _ := strings.Cut(text, ": "); strings.HasPrefix(what, "panic serving") { // it has to be found
		l.logger.Error(text)
	} else if leftOut, may := l.few.Next(); may {
		l.logger.Warn(fair.Shortened(text), "left_out", leftOut)
	}
	return len(line), nil
}
