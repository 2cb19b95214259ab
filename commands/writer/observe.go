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
	// Searched is called for each traced claim, after the search for it.
	Searched(s commands.Submission, began, ended time.Time)
	// Traced is called for each traced command, after Answered.
	Traced(s commands.Submission, t Times, outcome commands.Outcome, err error)
}

// Times are when a traced command came to each stage. A zero time means that it
// did not come there.
type Times struct {
	// Submitted is when it was put into the queue.
	Submitted time.Time
	// Taken is when its decision began: the last one, if it was decided again.
	Taken time.Time
	// Sent is when its commit was sent to the log.
	Sent time.Time
	// Appended is when the log had the commit.
	Appended time.Time
	// Folded is when the read models had it.
	Folded time.Time
	// Answered is when its caller was told.
	Answered time.Time
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
func (w *Writer) begun(c *pendingCommand) {
	if w.opts.Observer == nil {
		return
	}
	c.submitted = time.Now()
	if c.Trace != nil {
		c.times = &Times{Submitted: c.submitted}
	}
}

// taken notes that the decision of a call begins.
func (c *pendingCommand) taken() {
	if c.times != nil {
		*c.times = Times{Submitted: c.submitted, Taken: time.Now()}
	}
}

// observe reports a flight whose calls can be answered, and whose commit the log
// had at a time.
func (w *Writer) observe(f *inflightCommit, appended time.Time) {
	if w.opts.Observer == nil || f.commit == nil {
		return
	}
	folded := time.Now()
	stages := Stages{
		Decide: f.sent.Sub(f.opened), Append: appended.Sub(f.sent), Fold: folded.Sub(appended),
		Records: len(f.commit.Records), Bytes: len(f.encoded),
	}
	if len(f.calls) > 0 {
		stages.Queue = max(f.opened.Sub(f.calls[0].submitted), 0)
	}
	w.opts.Observer.Committed(stages)
	for _, c := range f.calls {
		if c.times != nil {
			c.times.Sent, c.times.Appended, c.times.Folded = f.sent, appended, folded
		}
	}
}

func (w *Writer) observeAnswer(c *pendingCommand, outcome commands.Outcome, err error) {
	if w.opts.Observer == nil || c.forking {
		return
	}
	now := time.Now()
	w.opts.Observer.Answered(commands.NameOf(c.Command), outcome, err, now.Sub(c.submitted))
	if c.times != nil {
		// A copy: the loop may still work on a call whose caller was told that the
		// log is silent.
		times := Times{Submitted: c.submitted, Answered: now}
		if !c.told.Load() {
			times = *c.times
			times.Answered = now
		}
		w.opts.Observer.Traced(c.Submission, times, outcome, err)
	}
}

// observeSearch returns what has a traced claim decided, and reports the search
// that ended then.
func (w *Writer) observeSearch(trace *commands.Trace) commands.Decider {
	if w.opts.Observer == nil || trace == nil {
		return w.decideFound
	}
	began := time.Now()
	return func(s commands.Submission, done commands.Done) {
		w.opts.Observer.Searched(s, began, time.Now())
		w.decideFound(s, done)
	}
}
