package writer_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// twiceLog tells the sender of an append nothing. When that one sends it again, as it
// was decided a moment later, it takes that, too, in the next place, in spite of the
// sequence that it names.
type twiceLog struct {
	*memlog.Log
	twice atomic.Bool
}

// Append implements ledger.Log.
func (l *twiceLog) Append(sequence uint64, encoded []byte, done func(error)) {
	if !l.twice.CompareAndSwap(true, false) {
		l.Log.Append(sequence, encoded, done)
		return
	}
	commit, err := ledger.DecodeCommit(encoded)
	if err != nil {
		done(err)
		return
	}
	for i := range commit.Records {
		commit.Records[i].Time++
	}
	late, err := ledger.EncodeCommit(commit)
	if err != nil {
		done(err)
		return
	}
	l.Log.Append(sequence, encoded, func(err error) {
		l.Edit(func(entries [][]byte) [][]byte { return append(entries, late) })
		if err == nil {
			err = ledger.ErrUnknownFate
		}
		done(err)
	})
}

// TestLateAppendIsSkipped: an append that the log has taken again after all, behind the
// commit that has its place, is skipped by the writer and by later readers of the log, at
// its end and once another commit follows. Its commands are done once.
func TestLateAppendIsSkipped(t *testing.T) {
	log := &twiceLog{Log: &memlog.Log{}}
	l := commandstest.Start(t, t.TempDir(), log)
	log.twice.Store(true)
	first := l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_TWICE"})
	l.Stop(t)
	l = commandstest.Start(t, t.TempDir(), log)
	next := l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_NEXT"})
	if next.Sequence != first.Sequence+2 {
		t.Errorf("%v, and then %v", first, next)
	}
	l.Stop(t)
	l = commandstest.Start(t, t.TempDir(), log)
	if again := l.Submit(t, &commands.CreateTrait{Name: "CUSTOM_TWICE"}); again.Rejection == nil && again.Address.Sequence != 0 {
		t.Errorf("%+v", again)
	}
	l.Stop(t)
}

// lateLog keeps an append back and says nothing of it, until it is sent again. Then it
// takes both.
type lateLog struct {
	*memlog.Log
	late atomic.Bool
	kept []byte
}

// Append implements ledger.Log.
func (l *lateLog) Append(sequence uint64, encoded []byte, done func(error)) {
	switch {
	case l.late.CompareAndSwap(true, false):
		l.kept = slices.Clone(encoded)
		done(ledger.ErrUnknownFate)
	case l.kept != nil:
		kept, again := l.kept, slices.Clone(encoded)
		l.kept = nil
		l.Log.Append(sequence, kept, func(error) {
			l.Edit(func(entries [][]byte) [][]byte { return append(entries, again) })
			done(ledger.ErrConflict)
		})
	default:
		l.Log.Append(sequence, encoded, done)
	}
}

// TestLateAppendWhileTheClockStands: what is sent again differs from what was sent
// first although the clock stands still, as it does for the log while it is set back.
// If the log takes both, the second is skipped.
func TestLateAppendWhileTheClockStands(t *testing.T) {
	log := &lateLog{Log: &memlog.Log{}}
	stands := time.Now()
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) {
		o.Now = func() time.Time { return stands }
	})
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_BEFORE"})
	log.late.Store(true)
	first := l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_LATE"})
	next := l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_NEXT"})
	if next.Sequence != first.Sequence+2 {
		t.Errorf("%v, and then %v", first, next)
	}
	l.Stop(t)
}

// slowLog keeps an append for itself, says nothing of it, and takes no other one
// meanwhile, as a log does whose servers cannot agree.
type slowLog struct {
	*memlog.Log
	slow atomic.Bool
	kept []byte
}

// Append implements ledger.Log.
func (l *slowLog) Append(sequence uint64, encoded []byte, done func(error)) {
	switch {
	case !l.slow.Load():
		l.Log.Append(sequence, encoded, done)
	case l.kept == nil:
		l.kept = slices.Clone(encoded)
		done(ledger.ErrUnknownFate)
	default:
		done(ledger.ErrConflict)
	}
}

// TestLateAppendIsNoticed: a commit that comes into the log after its caller was told
// that the log cannot be written is read without another command, and the writer says
// that commits are taken again. Sent again, it is known.
func TestLateAppendIsNoticed(t *testing.T) {
	log := &slowLog{Log: &memlog.Log{}}
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.AnswerWithin = 100 * time.Millisecond })
	before := l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_BEFORE"})
	late := commands.Submission{ID: commands.NewID(), Actor: "test", Command: &commands.CreateTrait{Name: "CUSTOM_LATE"}}
	log.slow.Store(true)
	if _, err := l.Writer.Submit(t.Context(), late); !errors.Is(err, commands.ErrLogUnavailable) {
		t.Fatalf("while the log takes nothing: %v", err)
	}
	if err := l.Writer.Stuck(); !errors.Is(err, commands.ErrLogUnavailable) {
		t.Errorf("while the log takes nothing, it says: %v", err)
	}
	log.Edit(func(entries [][]byte) [][]byte { return append(entries, log.kept) })
	log.slow.Store(false)
	ledgertest.WaitFor(t, "the commit that came late to be noticed", func() bool {
		return l.Views.Checkpoint().Sequence > before.Sequence && l.Writer.Stuck() == nil
	})
	if again, err := l.Writer.Submit(t.Context(), late); err != nil || again.Address.Sequence != before.Sequence+1 {
		t.Errorf("sent again: %+v, %v", again, err)
	}
	l.Stop(t)
}
