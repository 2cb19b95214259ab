package writer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// gated is a ledger on a log whose appends end one by one, when the test says so.
type gated struct {
	*commandstest.Ledger
	log     *memlog.Log
	release chan struct{}
	base    uint64 // commits that were there when it began
}

func startGated(t *testing.T) *gated {
	release := make(chan struct{})
	g := &gated{log: &memlog.Log{Gate: func() { <-release }}, release: release}
	shut := g.open()
	g.Ledger = commandstest.Start(t, t.TempDir(), g.log)
	shut()
	t.Cleanup(func() { g.stop(t) })
	var err error
	if g.base, err = g.log.Last(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// open lets all appends end, until it is shut again.
func (g *gated) open() (shut func()) {
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case g.release <- struct{}{}:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-stopped }
}

// stop ends the ledger, whose last appends are still held up.
func (g *gated) stop(t *testing.T) {
	defer g.open()()
	g.Stop(t)
}

// begin starts commands and returns a channel with the addresses of their
// records.
func (g *gated) begin(t *testing.T, n int) <-chan ledger.Address {
	told := make(chan ledger.Address, n)
	for i := range n {
		id := commandstest.NewID()
		g.Writer.Start(
			commands.Submission{
				ID: id, Actor: "test", Command: &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%X_%d", id[:4], i)},
			},
			func(outcome commands.Outcome, err error) {
				if err != nil || outcome.Rejection != nil {
					t.Errorf("%+v, %v", outcome, err)
				}
				told <- outcome.Address
			},
		)
	}
	return told
}

// appended waits until the log has this many more commits.
func (g *gated) appended(t *testing.T, more uint64) {
	t.Helper()
	want, last := g.base+more, uint64(0)
	ledgertest.WaitFor(t, "commits in the log", func() bool {
		last, _ = g.log.Last(context.Background()) // it has no errors
		return last >= want
	}, func() any { return last })
	if last != want {
		t.Fatalf("the log has %d commits, want %d", last, want)
	}
}

// TestRunsAhead: commands that come while a commit is on its way share the next one.
// Behind a full commit another one is sent before the first is durable, but no more
// than that; nothing is answered before its turn.
func TestRunsAhead(t *testing.T) {
	synctest.Test(t, runsAhead)
}

func runsAhead(t *testing.T) {
	const full, commits = 2048, 5
	g := startGated(t)
	first := g.begin(t, 1)
	g.appended(t, 1)
	told := g.begin(t, (commits-1)*full)
	g.release <- struct{}{}
	<-first
	for n := range commits - 2 {
		g.appended(t, 3+uint64(n))
		if len(told) > n*full {
			t.Errorf("%d commands are answered, but %d commits are durable", len(told), n+1)
		}
		synctest.Wait() // a writer that ran further ahead would do it now
		g.appended(t, 3+uint64(n))
		g.release <- struct{}{}
		for range full {
			if at := <-told; at.Sequence != g.base+2+uint64(n) {
				t.Fatalf("a command is at %v, want %d", at, g.base+2+uint64(n))
			}
		}
	}
}
