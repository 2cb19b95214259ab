package writer_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// alone is a leadership without a rival.
type alone struct{ lost chan struct{} }

func (alone) Await(<-chan struct{}) error { return nil }

func (a alone) Lost() <-chan struct{} { return a.lost }

func (alone) Instance() ledger.UUID { return ledger.UUID{1} }

// appendBehind appends a commit of records behind a head, as another server does.
func appendBehind(t *testing.T, log ledger.Log, head ledger.Head, records ...ledger.Record) ledger.Head {
	t.Helper()
	commit := &ledger.Commit{Sequence: head.Sequence + 1, Prev: head.Digest, Records: records}
	data := ledgertest.Encoded(t, commit)
	ledgertest.OK(t, ledgertest.Append(log, commit.Sequence, data))
	return ledger.Head{Sequence: commit.Sequence, Digest: ledger.DigestOf(data)}
}

// TestDeposedWriterReadsNoFurther: a writer that finds another server's term in the log
// folds nothing behind it, since the leader of that term may not know yet that it is there.
func TestDeposedWriterReadsNoFurther(t *testing.T) {
	log := &memlog.Log{}
	l := commandstest.Start(t, t.TempDir(), log)
	state := commandstest.Must(l.Writer.Fork(t.Context()))
	w := writer.New(log, l.Views, state, writer.Options{
		Now: time.Now, Logger: slog.New(slog.DiscardHandler), Leadership: alone{make(chan struct{})},
	})
	head, last := state.Head(), state.Head().Sequence
	for _, event := range []ledger.Event{
		ledger.TraitCreated{Name: "CUSTOM_BEFORE"},
		ledger.TermBegan{Term: ledger.Term{Number: 1, Leader: "other", Instance: ledger.UUID{2}, Level: ledger.Level}},
		ledger.TraitCreated{Name: "CUSTOM_AFTER"},
	} {
		head = appendBehind(t, log, head, ledger.Record{
			CommandID: commandstest.NewID(), Command: "test", Time: time.Now().UnixNano(), Actor: "other",
			Events: []ledger.Event{event},
		})
	}
	_, err := w.Submit(t.Context(), submitted(trait(1)))
	if !errors.Is(err, commands.ErrNotLeading) {
		t.Errorf("a deposed writer says %v", err)
	}
	if now := l.Views.Checkpoint().Sequence; now != last+2 {
		t.Errorf("it has folded %d commits, and the term is the second of three", now-last)
	}
	if err := w.Close(); !errors.Is(err, commands.ErrNotLeading) {
		t.Error(err)
	}
}

// over is a leadership that has ended, of which its writer has not heard.
type over struct{ alone }

func (over) Await(<-chan struct{}) error { return commands.ErrNotLeading }

// TestDeposedWriterSaysNothing: what a writer has decided, and the log does not confirm, it tells only while it leads:
// another leader may have changed what that rests on.
func TestDeposedWriterSaysNothing(t *testing.T) {
	leads := alone{make(chan struct{})}
	for leadership, want := range map[writer.Leadership]bool{leads: true, over{leads}: false} {
		l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
		l.Accept(t, trait(1))
		state := commandstest.Must(l.Writer.Fork(t.Context()))
		w := writer.New(l.Log, l.Views, state, writer.Options{Now: time.Now, Leadership: leadership})
		got, err := w.Submit(t.Context(), submitted(trait(1)))
		if told := err == nil && got.Rejection != nil; told != want || !told && !commands.Passing(err) {
			t.Errorf("what exists is made again: %+v, %v; a rejection is told: %v", got, err, want)
		}
		_ = w.Close() // one of them has ended
	}
}

// TestNothingNewForOldReplicas: as long as some known replica knows no event at
// all, only terms are written, which can raise the level.
func TestNothingNewForOldReplicas(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	begin := func(level uint64) *commands.BeginTerm {
		return &commands.BeginTerm{Leader: "a", Instance: commandstest.NewID(), Level: level}
	}
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_ALONE"})
	l.Accept(t, begin(0))
	got := l.Submit(t, &commands.CreateTrait{Name: "CUSTOM_EARLY"})
	if got.Rejection == nil || got.Rejection.Code != demand.CodeNotYet {
		t.Errorf("at level 0: %+v", got)
	}
	l.Accept(t, begin(ledger.Level))
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_NOW"})
	if got := l.Submit(t, begin(0)); got.Rejection == nil {
		t.Error("the level went down")
	}
}
