package ledger

import "fmt"

// LogContinued states that the log of several servers goes on in another stream
// after the commit that it is in. It is the only event of that commit, so a reader
// of the log knows the commit by its size, and whoever has not read it cannot append
// the commit after it.
type LogContinued struct {
	// Of is the id of the stream that ends with this commit. In a log that was
	// copied into another stream the event means nothing any more.
	Of string `json:"of"`
	// Stream is the name of the stream that holds the commits from the next one on.
	Stream string `json:"stream"`
}

// ContinuedLevel is the level of features that knows LogContinued: from then on the
// log of several servers may go on in another stream.
const ContinuedLevel = 3

var logContinued = registerAt(ContinuedLevel, 91, LogContinued.form)

func (LogContinued) kind() *eventKind { return logContinued }

// Topic implements Event.
func (LogContinued) Topic() Topic { return Topic{} }

func (ev LogContinued) form(c *coder) LogContinued {
	c.eventFields(2).text(&ev.Of).text(&ev.Stream)
	return ev
}

// apply changes nothing: where the log is stored is not a fact about what it says.
func (ev LogContinued) apply(*State, moment) error {
	if ev.Stream == "" {
		return fmt.Errorf("%w: the log goes on in a stream without a name", ErrInvariant)
	}
	return nil
}
