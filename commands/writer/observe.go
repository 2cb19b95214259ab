package writer

import (
	"time"

	"github.com/allot-project/allot/commands"
)

// Observer is told how long things take. The writer's goroutines call it, so
// that it must neither block nor take long.
type Observer interface {
	// Answered is told of each command, with the time since it was submitted.
	// Forks of the State are no commands.
	Answered(command string, outcome commands.Outcome, err error, took time.Duration)
	// Committed is told of each commit once it can be read.
	Committed(Stages)
}

// Stages says where the time of a commit went, from one to the next.
type Stages struct {
	// Queue is how long its first command had waited when it was decided.
	Queue time.Duration
	// Decide is from then until the commit was sent to the log.
	Decide time.Duration
	// Append is from then until the log had it.
	Append time.Duration
	// Fold is from then until the read models had it.
	Fold time.Duration
	// Records and Bytes are its size.
	Records, Bytes int
}

// begun notes when a call was submitted, if anybody wants to know.
func (w *Writer) begun(c *call) {
	if w.opts.Observer != nil {
		c.submitted = time.Now()
	}
}

// observe tells of a commit that can be read since now, and that the log had at
// a time.
func (w *Writer) observe(f *flight, appended time.Time) {
	if w.opts.Observer == nil || f.commit == nil {
		return
	}
	stages := Stages{
		Decide: f.sent.Sub(f.opened), Append: appended.Sub(f.sent), Fold: time.Since(appended),
		Records: len(f.commit.Records), Bytes: len(f.encoded),
	}
	if len(f.calls) > 0 {
		stages.Queue = max(f.opened.Sub(f.calls[0].submitted), 0)
	}
	w.opts.Observer.Committed(stages)
}

// observeAnswer tells of a command that is answered.
func (w *Writer) observeAnswer(c *call, outcome commands.Outcome, err error) {
	if w.opts.Observer != nil && !c.forking {
		w.opts.Observer.Answered(c.Command.CommandName(), outcome, err, time.Since(c.submitted))
	}
}
