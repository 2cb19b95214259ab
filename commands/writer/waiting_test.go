package writer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestSilentLog holds an append back. All waiting calls are answered, including those behind it, and later ones at
// once. When the log answers, everything goes on: commits that were sent are there once, the others are not.
func TestSilentLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *writer.Options) { o.AnswerWithin = time.Second })
	held := make(chan struct{})
	r.log.Gate = func() { <-held }
	sent, behind := submitted(trait(1)), submitted(trait(2))
	for i, s := range []commands.Submission{sent, sent, behind} {
		if _, err := r.answered(s); !errors.Is(err, commands.ErrLogUnavailable) {
			t.Errorf("submission %d: %v", i, err)
		}
	}
	if !errors.Is(r.Stuck(), writer.ErrLogSilent) || r.Refused() != 3 {
		t.Errorf("stuck %v, refused %d", r.Stuck(), r.Refused())
	}
	close(held)
	outcome, err := r.answeredAtLast(sent)
	if err != nil || !outcome.Repeated {
		t.Errorf("what was sent: %+v, %v", outcome, err)
	}
	r.accept(trait(3))
	if r.Stuck() != nil {
		t.Errorf("afterwards: %v", r.Stuck())
	}
	if _, found, err := r.models.Command(behind.ID); found || err != nil {
		t.Errorf("a command whose caller had gone was carried out: %v, %v", found, err)
	}
	checkLog(t, r.log, map[ledger.UUID]ledger.Address{sent.ID: outcome.Address})
}

// TestSilentReadModels: callers are told who keeps them waiting, if it is the read models.
func TestSilentReadModels(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *writer.Options) { o.AnswerWithin = time.Second })
	held := make(chan struct{})
	r.models.fold = func() (error, error) { <-held; return nil, nil }
	s := submitted(trait(1))
	for range 2 { // the second one at once
		if _, err := r.answered(s); !errors.Is(err, writer.ErrReadModelsSilent) || errors.Is(err, writer.ErrLogSilent) {
			t.Errorf("it waited for the read models: %v", err)
		}
	}
	if err := r.Stuck(); !errors.Is(err, writer.ErrReadModelsSilent) {
		t.Errorf("stuck: %v", err)
	}
	close(held)
	if outcome, err := r.answeredAtLast(s); err != nil || !outcome.Repeated || r.Stuck() != nil {
		t.Errorf("afterwards: %+v, %v, stuck %v", outcome, err, r.Stuck())
	}
}

// TestUnreachableLog: once it is certain that the log cannot be read, all waiting calls are answered soon. Then one
// command at a time waits for the log, and others are refused at once. When the log is back, everything goes on.
func TestUnreachableLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *writer.Options) { o.AnswerWithin = time.Hour })
	var away atomic.Bool
	away.Store(true)
	unavailable := errWhile(&away, ledger.ErrUnavailable)
	r.log.Away = func(context.Context, uint64) error { return unavailable() }
	r.log.Decide = failsWhile(&away, memlog.LostAppend)
	answers := make(chan error, 10)
	start := func(n int) {
		r.Start(submitted(trait(n)), func(_ commands.Outcome, err error) { answers <- err })
	}
	for n := range 4 {
		start(n)
	}
	for range 4 {
		if err := <-answers; !errors.Is(err, commands.ErrLogUnavailable) || !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("one that waited: %v", err)
		}
	}
	if !errors.Is(r.Stuck(), writer.ErrLogSilent) || r.Refused() != 4 {
		t.Errorf("stuck %v, refused %d", r.Stuck(), r.Refused())
	}
	tries := func(n int) (refused bool) {
		start(n)
		select {
		case err := <-answers:
			if !errors.Is(err, commands.ErrLogUnavailable) {
				t.Errorf("while the log is away: %v", err)
			}
			return true
		default:
			return false
		}
	}
	first, second := tries(4), tries(5) // the first may have been told by now, too
	if first && !second {
		second = tries(6)
	}
	if !second {
		t.Error("a second command waits for the log, too")
	}
	away.Store(false)
	for n := 10; ; n++ {
		outcome, err := r.submit(trait(n))
		if err == nil && outcome.Rejection == nil {
			break
		}
		if !errors.Is(err, commands.ErrLogUnavailable) {
			t.Fatalf("afterwards: %+v, %v", outcome, err)
		}
	}
	if r.Stuck() != nil {
		t.Error("the log counts as stuck after it took a commit")
	}
}

// TestRefusedInTheQueue: if the log must no longer be written, waiting calls are
// refused when their turn comes, but commits under way are not.
func TestRefusedInTheQueue(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	errFull := errors.New("the disk is full")
	r := newRig(t, func(o *writer.Options) { o.Refuse = errWhile(&full, errFull) })
	begun, release := r.hold()
	underWay := r.start(submitted(trait(1)))
	<-begun
	queued, asking := r.start(submitted(trait(2))), r.start(commands.Submission{DryRun: true, Command: trait(3)})
	full.Store(true)
	release()
	if a := <-underWay; a.err != nil {
		t.Errorf("what was under way: %v", a.err)
	}
	if a := <-queued; !errors.Is(a.err, commands.ErrLogUnavailable) || !errors.Is(a.err, errFull) {
		t.Errorf("what waited: %v", a.err)
	}
	if a := <-asking; a.err != nil {
		t.Errorf("a dry run that waited: %v", a.err)
	}
	if r.Refused() != 1 {
		t.Errorf("%d refused", r.Refused())
	}
}

// TestLogIsBudgeted: a client that adds much to the log at once is told to wait, before
// anything is decided. Another client, one that loads in bulk, and dry runs are not.
func TestLogIsBudgeted(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0) // which does not move
	l := commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
		o.Now = func() time.Time { return now }
	})
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 1_000_000})
	large := strings.Repeat("x", 500_000)
	submit := func(s commands.Submission) error {
		s.ID, s.Actor = commandstest.NewID(), "test"
		outcome, err := l.Writer.Submit(t.Context(), s)
		if err == nil && outcome.Rejection != nil {
			t.Fatal(outcome.Rejection)
		}
		return err
	}
	var err error
	sent := 0
	for ; err == nil && sent < 500; sent++ {
		err = submit(commands.Submission{Client: "greedy", Command: trait(sent), RequestID: large})
	}
	if !errors.Is(err, fair.ErrBudget) {
		t.Fatalf("after %d commands: %v", sent, err)
	}
	few := func() commands.Command { return commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1) }
	for name, s := range map[string]commands.Submission{
		"another client": {Client: "modest", Command: few()}, "in bulk": {Client: "greedy", Bulk: true, Command: few()},
		"this process": {Command: few()}, "a dry run": {Client: "greedy", DryRun: true, Command: few()},
	} {
		if err := submit(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
