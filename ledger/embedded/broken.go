package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// When JetStream cannot write, it logs that, gives publishers no answer, and takes nothing
// more on that stream until its store is opened anew, even if the disk has room again. So a
// server whose store is broken ends, and the next start writes again what it can read
// (blocks.Folder.WriteAgain), because a system may take what it could not sync for written.
//
// If the disk was full at the first message of a new block, and the store is then closed in
// order, the store writes down that this message was deleted: its sequence is lost for good,
// and the log has a gap. After a crash this does not happen. So a broken store is not closed.

// ErrBroken means that JetStream could not write, and takes nothing until the next start.
var ErrBroken = errors.New("embedded: JetStream could not write to its store")

func (l *natsLogger) noteBroken(text string) {
	if strings.Contains(strings.ToLower(text), "critical write error") {
		l.breaks(fmt.Errorf("%w: %s", ErrBroken, strings.TrimSpace(text)))
	}
}

// Broken is closed when JetStream could not write to one of its stores.
func (s *Server) Broken() <-chan struct{} { return s.lines.broken.Done() }

// WhyBroken returns why, or nil.
func (s *Server) WhyBroken() error { return context.Cause(s.lines.broken) }

// NoSpace reports whether an error of JetStream says that the disk is full.
func NoSpace(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error() // NATS passes on no more than the text
	return strings.Contains(text, "no space left") || strings.Contains(text, "quota exceeded")
}
