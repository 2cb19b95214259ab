package writer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// strayLog is a log behind a network that is slow once, loses the next append, holds
// up those that are sent before the fate of that one is known, and delivers them when
// the log has taken another commit in its place.
type strayLog struct {
	*memlog.Log
	mu     sync.Mutex
	armed  bool
	slow   bool   // it was slow
	lost   uint64 // sequence of the lost append; 0: none yet
	known  bool   // its sender knows that its fate is unknown
	strays []func()
}

// Append implements ledger.Log.
func (l *strayLog) Append(sequence uint64, encoded []byte, done func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.armed && !l.slow: // calls queue up behind it
		l.slow = true
		time.AfterFunc(50*time.Millisecond, func() { l.Log.Append(sequence, encoded, done) })
	case l.armed && l.lost == 0:
		l.lost = sequence
		time.AfterFunc(100*time.Millisecond, func() {
			l.mu.Lock()
			l.known = true
			l.mu.Unlock()
			done(ledger.ErrUnknownFate)
		})
	case l.lost > 0 && !l.known:
		l.strays = append(l.strays, func() { l.Log.Append(sequence, encoded, func(error) {}) })
		time.AfterFunc(200*time.Millisecond, func() { done(ledger.ErrUnknownFate) })
	case l.lost > 0 && sequence == l.lost:
		l.Log.Append(sequence, encoded, func(err error) {
			for _, arrive := range l.strays {
				arrive()
			}
			l.strays = nil
			done(err)
		})
	default:
		l.Log.Append(sequence, encoded, done)
	}
}

// alone is a leadership without a rival.
type alone struct{ lost chan struct{} }

// Await implements writer.Leadership.
func (alone) Await(<-chan struct{}) error { return nil }

// Lost implements writer.Leadership.
func (a alone) Lost() <-chan struct{} { return a.lost }

// Instance implements writer.Leadership.
func (alone) Instance() ledger.UUID { return ledger.UUID{1} }

// TestStrayAppends: a commit that is behind another one reaches the log late, when
// something else stands there in the place of the other one. It names the right sequence,
// but the log's chain would be broken by it, and the log could not be read any more. So
// where several servers can write, no commit is sent before the one before it is durable.
func TestStrayAppends(t *testing.T) {
	for range 10 { // it depends on who comes first
		strayAppends(t)
	}
}

func strayAppends(t *testing.T) {
	t.Helper()
	log := &strayLog{Log: &memlog.Log{}}
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.Leadership = alone{make(chan struct{})} })
	log.mu.Lock()
	log.armed = true
	log.mu.Unlock()
	var answered sync.WaitGroup
	for i := range 16 {
		answered.Go(func() {
			for round := range 20 {
				l.Accept(t, &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%d_%d", i, round)})
			}
		})
		answered.Go(func() {
			for range 20 { // each ends the open commit, however few commands it has, so that the next one is made at once
				if _, err := l.Writer.Fork(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	answered.Wait()
	l.Stop(t)
	checkLog(t, log, nil)
	if log.lost == 0 {
		t.Error("no append was lost")
	}
}

// slowToTell is a log of warnings that takes its time.
type slowToTell struct{ slog.Handler }

// Handle implements slog.Handler.
func (slowToTell) Handle(context.Context, slog.Record) error {
	time.Sleep(20 * time.Millisecond)
	return nil
}

// Enabled implements slog.Handler.
func (slowToTell) Enabled(context.Context, slog.Level) bool { return true }

// overtaken is a log into which another server writes a commit once, in the place of
// one that was sent.
type overtaken struct {
	*memlog.Log
	next atomic.Bool
	by   func(sequence uint64) []byte
}

// Append implements ledger.Log.
func (l *overtaken) Append(sequence uint64, encoded []byte, done func(error)) {
	if !l.next.CompareAndSwap(true, false) {
		l.Log.Append(sequence, encoded, done)
		return
	}
	time.AfterFunc(50*time.Millisecond, func() { // calls queue up behind it
		other := l.by(sequence)
		l.Edit(func(entries [][]byte) [][]byte { return append(entries, other) })
		done(ledger.ErrConflict)
	})
}

// TestNothingFollowsARefusedAppend: between the refusal of an append and the moment in
// which the writer has noticed it, no commit is sent that is linked to the refused one.
// It names the next sequence, and the log would take it.
func TestNothingFollowsARefusedAppend(t *testing.T) {
	log := &overtaken{Log: &memlog.Log{}}
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) {
		o.Leadership, o.Logger = alone{make(chan struct{})}, slog.New(slowToTell{})
	})
	log.by = func(sequence uint64) []byte {
		var head ledger.Head
		err := chain.Read(t.Context(), log, ledger.Head{}, sequence-1, func(c *ledger.Commit) error {
			head = c.Head()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return ledgertest.Encoded(t, &ledger.Commit{Sequence: sequence, Prev: head.Digest, Records: []ledger.Record{{
			CommandID: commandstest.NewID(), Command: "CreateTrait", Time: time.Now().Add(time.Hour).UnixNano(), Actor: "another",
			Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_OF_ANOTHER"}},
		}}})
	}
	log.next.Store(true)
	var answered sync.WaitGroup
	for i := range 16 {
		answered.Go(func() {
			for round := range 5 {
				l.Accept(t, &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%d_%d", i, round)})
			}
		})
	}
	answered.Wait()
	l.Stop(t)
}

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
