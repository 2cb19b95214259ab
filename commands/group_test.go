package commands_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// gatedLog is a log whose appends end one by one, when a test says so.
func gatedLog() (log *memlog.Log, release chan<- struct{}) {
	gate := make(chan struct{})
	return &memlog.Log{Gate: func() { <-gate }}, gate
}

// open lets every append end until a test says otherwise.
func open(release chan<- struct{}) (stop func()) {
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case release <- struct{}{}:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-stopped }
}

// begin starts commands and returns where their records will be told.
func begin(t *testing.T, l *commandstest.Ledger, n int) <-chan ledger.Address {
	told := make(chan ledger.Address, n)
	for i := range n {
		id := commandstest.NewID()
		l.Processor.Start(commands.Submission{ID: id, Actor: "test", Command: &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%X_%d", id[:4], i)}},
			func(outcome commands.Outcome, err error) {
				if err != nil || outcome.Rejection != nil {
					t.Errorf("%+v, %v", outcome, err)
				}
				told <- outcome.Address
			})
	}
	return told
}

// appended waits until the log has so many commits.
func appended(t *testing.T, log *memlog.Log, want uint64) {
	t.Helper()
	var last uint64
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if last, _ = log.Last(context.Background()); last >= want { // it has no errors
			break
		}
	}
	if last != want {
		t.Fatalf("the log has %d commits, want %d", last, want)
	}
}

// TestGroup: what comes while a commit is on its way shares the next one.
func TestGroup(t *testing.T) {
	log, release := gatedLog()
	stop := open(release)
	l := commandstest.Start(t, t.TempDir(), log)
	stop()
	base, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := begin(t, l, 1)
	appended(t, log, base+1)
	others := begin(t, l, 50)
	release <- struct{}{}
	<-first
	appended(t, log, base+2)
	release <- struct{}{}
	for range 50 {
		if at := <-others; at.Sequence != base+2 {
			t.Errorf("a command is at %v, and not with the others in %d", at, base+2)
		}
	}
	defer open(release)()
	l.Stop(t)
}

// TestRunsAhead: behind a full commit another one is sent before the first is
// durable, and no more than that; nothing is answered before its turn.
func TestRunsAhead(t *testing.T) {
	const full, commits = 2048, 5
	log, release := gatedLog()
	stop := open(release)
	l := commandstest.Start(t, t.TempDir(), log)
	stop()
	base, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := begin(t, l, 1)
	appended(t, log, base+1)
	told := begin(t, l, (commits-1)*full)
	release <- struct{}{}
	<-first
	for n := range commits - 2 {
		appended(t, log, base+3+uint64(n))
		if len(told) > n*full {
			t.Errorf("%d commands are answered, but %d commits are durable", len(told), n+1)
		}
		time.Sleep(10 * time.Millisecond) // a writer that ran further ahead would do it now
		appended(t, log, base+3+uint64(n))
		release <- struct{}{}
		for range full {
			if at := <-told; at.Sequence != base+2+uint64(n) {
				t.Fatalf("a command is at %v, want %d", at, base+2+uint64(n))
			}
		}
	}
	defer open(release)()
	l.Stop(t)
}
