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

// lateLog keeps an append back and says nothing of it, until it is sent again. Then it takes both.
type lateLog struct {
	*memlog.Log
	late atomic.Bool
	kept []byte
}

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

// TestLateAppendIsSkipped: an append that the log has taken after all, before the same
// commit as it was decided again, has its place. The second is skipped by the writer and by
// later readers of the log, at its end and once another commit follows, although the clock
// stands still, as it does for the log while it is set back. Its commands are done once.
func TestLateAppendIsSkipped(t *testing.T) {
	stands := time.Now()
	for name, now := range map[string]func() time.Time{
		"the clock goes on": time.Now, "the clock stands": func() time.Time { return stands },
	} {
		t.Run(name, func(t *testing.T) {
			log := &lateLog{Log: &memlog.Log{}}
			start := func() *commandstest.Ledger {
				return commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.Now = now })
			}
			l := start()
			log.late.Store(true)
			first := l.Accept(t, trait(1))
			second := l.Accept(t, trait(2))
			log.late.Store(true)
			third := l.Accept(t, trait(3))
			l.Stop(t)
			l = start()
			fourth := l.Accept(t, trait(4))
			if second.Sequence != first.Sequence+2 || fourth.Sequence != third.Sequence+2 {
				t.Errorf("%v, %v, %v and %v", first, second, third, fourth)
			}
			if again := l.Submit(t, trait(1)); again.Rejection == nil {
				t.Errorf("%+v", again)
			}
			l.Stop(t)
		})
	}
}

// slowLog keeps an append for itself, says nothing of it, and takes no other one
// meanwhile, as a log does whose servers cannot agree.
type slowLog struct {
	*memlog.Log
	slow atomic.Bool
	kept []byte
}

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

// TestLateAppendIsNoticed: a commit that comes into the log after its caller was told that the log cannot be written
// is read without another command, and the writer says that commits are taken again. Sent again, it is known.
func TestLateAppendIsNoticed(t *testing.T) {
	log := &slowLog{Log: &memlog.Log{}}
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.AnswerWithin = 100 * time.Millisecond })
	before := l.Accept(t, trait(0))
	late := submitted(trait(1))
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
