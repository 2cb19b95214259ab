package commandstest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger/memlog"
)

// Together is a ledger whose commits are as large as a test wants.
type Together struct {
	*Ledger
	gate *sync.RWMutex // while held, no append ends
	held int           // appends that were held so far
	// appends has one more for an append that has begun, if nobody has taken the last.
	appends chan struct{}
}

// StartTogether starts a ledger on a log in memory.
func StartTogether(t testing.TB) *Together {
	t.Helper()
	l := &Together{gate: &sync.RWMutex{}, appends: make(chan struct{}, 1)}
	log := &memlog.Log{Gate: func() {
		select {
		case l.appends <- struct{}{}:
		default:
		}
		l.gate.RLock()
		l.gate.RUnlock() //nolint:staticcheck // it only waits
	}}
	l.Ledger = Start(t, t.TempDir(), log)
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
				t.Errorf("%s: %v", s.Command.CommandName(), err)
			}
			done(outcome)
		})
	}
	l.gate.Lock()
	select {
	case <-l.appends: // of what was answered long ago
	default:
	}
	l.held++
	held := &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_HELD_", l.held)}
	ended := make(chan struct{})
	start(commands.Submission{ID: commands.NewID(), Actor: "test", Command: held}, func(commands.Outcome) { close(ended) })
	select {
	case <-l.appends: // else some of the others might be decided with it, and some not
	case <-ended: // it has failed
	}
	for i, s := range list {
		start(s, func(outcome commands.Outcome) { outcomes[i] = outcome })
	}
	l.gate.Unlock()
	answered.Wait()
	return outcomes
}
