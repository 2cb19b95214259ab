package writer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// answered waits for what a command comes to; the limit is for hangs.
func answered(t *testing.T, l *commandstest.Ledger, s commands.Submission) (commands.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	outcome, err := l.Writer.Submit(ctx, s)
	if errors.Is(err, commands.ErrNoAnswer) {
		t.Fatal("the command was not answered")
	}
	return outcome, err
}

// TestSilentLog holds an append back: whoever waits is told so, also those who
// wait behind it, and later ones at once. When the log answers, everything
// goes on: what was sent is there once, what was not sent is not.
func TestSilentLog(t *testing.T) {
	t.Parallel()
	log := &memlog.Log{}
	held := make(chan struct{})
	var hold atomic.Bool
	log.Gate = func() {
		if hold.Load() {
			<-held
		}
	}
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.AnswerWithin = time.Second })
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 100})
	allocate := func() commands.Submission {
		return commands.Submission{
			ID: commandstest.NewID(), Actor: "test", Command: commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1),
		}
	}
	hold.Store(true)
	sent, behind := allocate(), allocate()
	for i, s := range []commands.Submission{sent, sent, behind} {
		if _, err := answered(t, l, s); !errors.Is(err, commands.ErrLogUnavailable) {
			t.Errorf("submission %d: %v", i, err)
		}
	}
	if !l.Writer.Stuck() || l.Writer.Refused() != 3 {
		t.Errorf("stuck %v, refused %d", l.Writer.Stuck(), l.Writer.Refused())
	}
	hold.Store(false)
	close(held)
	outcome, err := answered(t, l, sent)
	for errors.Is(err, commands.ErrLogUnavailable) { // the one that tries the log is under way
		outcome, err = answered(t, l, sent)
	}
	if err != nil || !outcome.Repeated {
		t.Errorf("what was sent: %+v, %v", outcome, err)
	}
	later := allocate()
	if outcome, err := answered(t, l, later); err != nil || outcome.Rejection != nil || l.Writer.Stuck() {
		t.Errorf("afterwards: %+v, %v", outcome, err)
	}
	if _, found, err := l.Views.Command(behind.ID); found || err != nil {
		t.Errorf("a command whose caller had gone was carried out: %v, %v", found, err)
	}
	checkLog(t, l, map[ledger.UUID]ledger.Address{sent.ID: outcome.Address})
}

// TestRefusedLog: while the log must not be written nothing reaches it, what
// only reads goes on, and commands go on as soon as it may be written again.
func TestRefusedLog(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	errFull := errors.New("the disk is full")
	l := commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
		o.Refuse = func() error {
			if full.Load() {
				return errFull
			}
			return nil
		}
	})
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 100})
	allocate := commands.Submission{
		ID: commandstest.NewID(), Actor: "test", Command: commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1),
	}
	before, err := l.Log.Last(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	for range 3 {
		if _, err := answered(t, l, allocate); !errors.Is(err, commands.ErrLogUnavailable) || !errors.Is(err, errFull) ||
			!commands.Passing(err) {
			t.Errorf("refused: %v", err)
		}
	}
	rehearsal := allocate
	rehearsal.DryRun = true
	if outcome, err := answered(t, l, rehearsal); err != nil || outcome.Rejection != nil {
		t.Errorf("a dry run: %+v, %v", outcome, err)
	}
	if last, err := l.Log.Last(context.Background()); last != before || err != nil {
		t.Errorf("the log has grown to %d, %v", last, err)
	}
	full.Store(false)
	if outcome, err := answered(t, l, allocate); err != nil || outcome.Repeated || outcome.Rejection != nil {
		t.Errorf("afterwards: %+v, %v", outcome, err)
	}
}
