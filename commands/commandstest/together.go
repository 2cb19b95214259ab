package commandstest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger/memlog"
)

// Together is a ledger whose commits are as large as a test wants.
type Together struct {
	*Ledger
	held int                  // appends that were held so far
	hold atomic.Pointer[hold] // of the next append; nil: it goes on
}

// hold holds an append back.
type hold struct {
	begun func() // it has begun, or will not
	ends  chan struct{}
}

// StartTogether starts a ledger on a log in memory.
func StartTogether(t testing.TB) *Together {
	t.Helper()
	l := &Together{}
	l.Ledger = Start(t, t.TempDir(), &memlog.Log{Gate: func() {
		if h := l.hold.Load(); h != nil {
			h.begun()
			<-h.ends
		}
	}})
	return l
}

// Submit submits commands while an earlier commit is being appended, so that they
// share the next commit if they may. It waits for their answers.
func (l *Together) Submit(t testing.TB, list ...commands.Command) []commands.Outcome {
	t.Helper()
	submissions := make([]commands.Submission, len(list))
	for i, c := range list {
		submissions[i] = commands.Submission{ID: commands.NewID(), Actor: "test", Command: c}
	}
	return l.SubmitAll(t, submissions...)
}

// SubmitAll is Submit for whole submissions.
func (l *Together) SubmitAll(t testing.TB, list ...commands.Submission) []commands.Outcome {
	t.Helper()
	outcomes := make([]commands.Outcome, len(list))
	var answered sync.WaitGroup
	start := func(s commands.Submission, done func(commands.Outcome)) {
		answered.Add(1)
		l.Writer.Start(s, func(outcome commands.Outcome, err error) {
			defer answered.Done()
			if err != nil {
				t.Errorf("%s: %v", commands.NameOf(s.Command), err)
			}
			done(outcome)
		})
	}
	begun := make(chan struct{})
	h := &hold{begun: sync.OnceFunc(func() { close(begun) }), ends: make(chan struct{})}
	l.hold.Store(h)
	l.held++
	held := &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_HELD_", l.held)}
	start(commands.Submission{ID: commands.NewID(), Actor: "test", Command: held}, func(commands.Outcome) { h.begun() })
	<-begun // else some of the others might be decided with it, and some not
	for i, s := range list {
		start(s, func(outcome commands.Outcome) { outcomes[i] = outcome })
	}
	l.hold.Store(nil)
	close(h.ends)
	answered.Wait()
	return outcomes
}
