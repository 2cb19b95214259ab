package writer

import (
	"time"

	"github.com/allot-project/allot/commands"
)

// Observer measures the writer. The writer's goroutines call it, so it must
// neither block nor take long.
type Observer interface {
	// Answered is called for each command, with the time since its submission.
	// Forks of the State do not count as commands.
	Answered(command string, outcome commands.Outcome, err error, took time.Duration)
	// Committed is called for each commit once it can be read.
	Committed(Stages)
}

// Stages are the times that a commit spent in each stage.
type Stages struct {
	// Queue is how long its first command waited until it was decided.
	Queue time.Duration
	// Decide is the time from then until the commit was sent to the log.
	Decide time.Duration
	// Append is the time from then until the log had it.
	Append time.Duration
	// Fold is the time from then until the read models had it.
	Fold time.Duration
	// Records and Bytes are the size of the commit.
	Records, Bytes int
}

// begun notes when a call was submitted, if there is an observer.
func (w *Writer) begun(c *call) {
	if w.opts.Observer != nil {
		c.submitted = time.Now()
	}
}

// observe reports a commit that can be read from now on, and that the log had at
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

// observeAnswer reports an answered command.
func (w *Writer) observeAnswer(c *call, outcome commands.Outcome, err error) {
	if w.opts.Observer != nil && !c.forking {
		w.opts.Observer.Answered(c.Command.CommandName(), outcome, err, time.Since(c.submitted))
	}
}
