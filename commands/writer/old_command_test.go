package writer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	pastfiles "github.com/allot-project/allot/projector/past"
)

// archivedLog is a log of which an archive has all.
type archivedLog struct{ *memlog.Log }

func (archivedLog) String() string { return "the archive" }

func (archivedLog) PartEnd(context.Context, uint64) (uint64, error) { return math.MaxUint64, nil }

// heldStore is a store from which nothing is read while it is held.
type heldStore struct {
	bucket.Store

	asked chan struct{}
	held  atomic.Pointer[chan struct{}]
}

func (s *heldStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if held := s.held.Load(); held != nil {
		s.asked <- struct{}{}
		<-*held
		return nil, errors.New("nobody is there")
	}
	return s.Store.Open(ctx, name)
}

// oldLedger is a ledger of which the first commands have left the read models.
type oldLedger struct {
	*commandstest.Ledger

	log   *memlog.Log
	store *heldStore
	first []commands.Submission
	where []ledger.Address
}

func createTrait(name string) commands.Submission {
	return commands.Submission{ID: commands.NewID(), Actor: "test", Command: &commands.CreateTrait{Name: "CUSTOM_" + name}}
}

func newOldLedger(t *testing.T, over func(writer.ReadModels) writer.ReadModels) *oldLedger {
	t.Helper()
	o := &oldLedger{log: &memlog.Log{}}
	o.Ledger = commandstest.StartOver(t, t.TempDir(), o.log, over)
	inner, err := bucket.Open("file://"+t.TempDir(), bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	o.store = &heldStore{Store: inner, asked: make(chan struct{}, 1000)}
	o.forgetFiles(t)
	const old = 20
	for n := range old + 1 { // the newest one stays
		if n == old {
			time.Sleep(2 * time.Millisecond) // it is made later than the others
		}
		s := createTrait(fmt.Sprint("OLD_", n))
		outcome, err := o.Writer.Submit(t.Context(), s)
		if err != nil || outcome.Rejection != nil {
			t.Fatal(outcome, err)
		}
		o.first, o.where = append(o.first, s), append(o.where, outcome.Address)
	}
	o.first, o.where = o.first[:old], o.where[:old]
	o.leave(t)
	for n, s := range o.first {
		if _, hot, err := o.Views.HotCommand(s.ID); hot || err != nil || o.Views.CommandsLeft(s.ID) == 0 {
			t.Fatalf("command %d has not left: %v", n, err)
		}
	}
	return o
}

// leave has leave what can.
func (o *oldLedger) leave(t *testing.T) {
	t.Helper()
	o.Views.ReadFrom(o.log)
	trimmer, err := o.Views.NewHistoryTrimmer(projector.HotHistory{
		Age: time.Nanosecond, Records: 1, Archives: []projector.ArchivedLog{archivedLog{o.log}}, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = errors.Join(trimmer.Work(t.Context()), trimmer.Work(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// forgetFiles has all files read from the store again.
func (o *oldLedger) forgetFiles(t *testing.T) {
	t.Helper()
	files, err := pastfiles.Open([]bucket.Store{o.store}, pastfiles.Options{Folder: filepath.Join(t.TempDir(), "past")})
	if err != nil {
		t.Fatal(err)
	}
	o.Views.ReadPastFrom(files)
}

// TestOldCommandsAreKnown: a command whose record has left the read models is carried out
// once, whatever is sent with its id.
func TestOldCommandsAreKnown(t *testing.T) {
	t.Parallel()
	o := newOldLedger(t, func(m writer.ReadModels) writer.ReadModels { return m })
	last, err := o.log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, s := range o.first {
		again, err := o.Writer.Submit(t.Context(), s)
		if err != nil || !again.Repeated || again.Address != o.where[n] {
			t.Errorf("command %d again: %+v, %v", n, again, err)
		}
		s.Command = &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_OTHER_", n)}
		other, err := o.Writer.Submit(t.Context(), s)
		if err != nil || other.Rejection == nil || other.Rejection.Code != commands.CodeCommandIDReused {
			t.Errorf("another command with the id of command %d: %+v, %v", n, other, err)
		}
	}
	if end, err := o.log.Last(t.Context()); err != nil || end != last {
		t.Errorf("the log went from %d to %d: %v", last, end, err)
	}
	unseen := createTrait("UNSEEN") // as old as they are, and new
	unseen.ID = o.first[3].ID
	unseen.ID[15] ^= 1
	if outcome, err := o.Writer.Submit(t.Context(), unseen); err != nil || outcome.Repeated || outcome.Rejection != nil {
		t.Errorf("a new command that is as old: %+v, %v", outcome, err)
	}
	if again, err := o.Writer.Submit(t.Context(), unseen); err != nil || !again.Repeated {
		t.Errorf("and again: %+v, %v", again, err)
	}
}

// TestArchiveHoldsUpNoNewCommand: while the archive does not answer, old commands wait, and
// are refused in the end without being carried out; new ones are carried out meanwhile.
func TestArchiveHoldsUpNoNewCommand(t *testing.T) {
	t.Parallel()
	o := newOldLedger(t, func(m writer.ReadModels) writer.ReadModels { return m })
	o.forgetFiles(t)
	held := make(chan struct{})
	o.store.held.Store(&held)
	refused := make(chan error, len(o.first))
	for _, s := range o.first {
		o.Writer.Start(s, func(_ commands.Outcome, err error) { refused <- err })
	}
	<-o.store.asked
	for n := range 5 {
		outcome, err := o.Writer.Submit(t.Context(), createTrait(fmt.Sprint("NEW_", n)))
		if err != nil || outcome.Rejection != nil {
			t.Errorf("a new command: %+v, %v", outcome, err)
		}
	}
	if len(refused) > 0 {
		t.Errorf("an old command was answered without the archive: %v", <-refused)
	}
	last, err := o.log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(held)
	for range o.first {
		if err := <-refused; !errors.Is(err, commands.ErrUnreadable) || !errors.Is(err, ledger.ErrArchived) {
			t.Errorf("an old command: %v", err)
		}
	}
	if end, err := o.log.Last(t.Context()); err != nil || end != last {
		t.Errorf("the log went from %d to %d: %v", last, end, err)
	}
	o.store.held.Store(nil)
	if again, err := o.Writer.Submit(t.Context(), o.first[0]); err != nil || !again.Repeated {
		t.Errorf("when the archive is back: %+v, %v", again, err)
	}
}

// TestOldCommandsAreBounded: of a flood of old commands, while the archive does not answer,
// some are refused at once, all are answered, and new ones are carried out meanwhile.
func TestOldCommandsAreBounded(t *testing.T) {
	t.Parallel()
	o := newOldLedger(t, func(m writer.ReadModels) writer.ReadModels { return m })
	o.forgetFiles(t)
	held := make(chan struct{})
	o.store.held.Store(&held)
	const flood = 3000
	answers := make(chan error, flood)
	for range flood {
		o.Writer.Start(o.first[0], func(_ commands.Outcome, err error) { answers <- err })
	}
	if len(answers) == 0 {
		t.Error("all of them wait")
	}
	if outcome, err := o.Writer.Submit(t.Context(), createTrait("NEW")); err != nil || outcome.Rejection != nil {
		t.Errorf("a new command: %+v, %v", outcome, err)
	}
	o.store.held.Store(nil)
	close(held)
	busy := 0
	for range flood {
		switch err := <-answers; {
		case errors.Is(err, commands.ErrBusy):
			busy++
		case err != nil && !errors.Is(err, commands.ErrUnreadable):
			t.Errorf("an old command: %v", err)
		}
	}
	if busy == 0 || busy == flood {
		t.Errorf("%d of %d were refused at once", busy, flood)
	}
}

// leavesLate are read models of which commands leave between a look-up and the decision.
type leavesLate struct {
	writer.ReadModels

	leave atomic.Pointer[func()]
}

func (m *leavesLate) HotCommand(id ledger.UUID) (ledger.CommandResult, bool, error) {
	if leave := m.leave.Swap(nil); leave != nil {
		(*leave)()
	}
	return m.ReadModels.HotCommand(id)
}

// TestCommandLeavesWhileItWaits: a command whose record leaves the read models after it was
// looked for is not carried out twice.
func TestCommandLeavesWhileItWaits(t *testing.T) {
	t.Parallel()
	late := &leavesLate{}
	o := newOldLedger(t, func(m writer.ReadModels) writer.ReadModels {
		late.ReadModels = m
		return late
	})
	s := createTrait("LEAVES")
	if outcome, err := o.Writer.Submit(t.Context(), s); err != nil || outcome.Rejection != nil {
		t.Fatal(outcome, err)
	}
	for n := range 3 { // the last one stays
		if outcome, err := o.Writer.Submit(t.Context(), createTrait(fmt.Sprint("AFTER_", n))); err != nil || outcome.Rejection != nil {
			t.Fatal(outcome, err)
		}
	}
	if o.Views.CommandsLeft(s.ID) != 0 {
		t.Fatal("the command has left already")
	}
	last, err := o.log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave := func() { o.leave(t) }
	late.leave.Store(&leave)
	outcome, err := o.Writer.Submit(t.Context(), s)
	if !errors.Is(err, commands.ErrUnreadable) {
		t.Errorf("while its record leaves: %+v, %v", outcome, err)
	}
	if o.Views.CommandsLeft(s.ID) == 0 {
		t.Fatal("the command has not left")
	}
	if again, err := o.Writer.Submit(t.Context(), s); err != nil || !again.Repeated {
		t.Errorf("sent again: %+v, %v", again, err)
	}
	if end, err := o.log.Last(t.Context()); err != nil || end != last {
		t.Errorf("the log went from %d to %d: %v", last, end, err)
	}
}
