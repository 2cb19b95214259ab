package writer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

var errInjected = errors.New("injected")

// models are read models whose methods a test can make fail: a hook of the test is called before the real method.
type models struct {
	*projector.Projector
	ready, command func() error
	fold           func() (before, after error)
}

func (m *models) Ready() error {
	if err := m.ready(); err != nil {
		return err
	}
	return m.Projector.Ready()
}

func (m *models) Command(id ledger.UUID) (ledger.CommandResult, bool, error) {
	if err := m.command(); err != nil {
		return ledger.CommandResult{}, false, err
	}
	return m.Projector.Command(id)
}

func (m *models) Fold(c *ledger.Commit, changes ledger.Changes) error {
	before, after := m.fold()
	if before != nil {
		return before
	}
	return errors.Join(m.Projector.Fold(c, changes), after)
}

// rig is a writer whose log and read models a test can make fail.
type rig struct {
	*writer.Writer
	t      *testing.T
	log    *memlog.Log
	models *models
	logs   *ledgertest.Output
}

// openModels opens read models until the test ends.
func openModels(t *testing.T) *models {
	t.Helper()
	views := commandstest.Must(projector.Open(filepath.Join(t.TempDir(), "readmodel"), slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { ledgertest.OK(t, views.Close()) })
	well := func() error { return nil }
	return &models{views, well, well, func() (error, error) { return nil, nil }}
}

func newRig(t *testing.T, changes ...func(*writer.Options)) *rig {
	t.Helper()
	r := &rig{t: t, log: &memlog.Log{}, models: openModels(t), logs: new(ledgertest.Output)}
	options := writer.Options{Now: time.Now, Logger: slog.New(slog.NewTextHandler(r.logs, nil))}
	for _, change := range changes {
		change(&options)
	}
	r.Writer = writer.New(r.log, r.models, ledger.NewState(), options)
	t.Cleanup(func() { _ = r.Close() }) // each test looks at what it expects of it
	r.accept(&commands.AddStandardNames{Ledger: commandstest.NewID(), Classes: []string{"VCPU"}})
	return r
}

// submitted is a command under a new id.
func submitted(c commands.Command) commands.Submission {
	return commands.Submission{ID: commands.NewID(), Actor: "test", Command: c}
}

// answer is what a caller is told.
type answer struct {
	commands.Outcome
	err error
}

// start submits a command, whose answer comes later.
func (r *rig) start(s commands.Submission) <-chan answer {
	told := make(chan answer, 1)
	r.Start(s, func(o commands.Outcome, err error) { told <- answer{o, err} })
	return told
}

// hold holds up all appends until they are released, and tells when each begins.
func (r *rig) hold() (begun <-chan struct{}, release func()) {
	held, begins := make(chan struct{}), make(chan struct{}, 10)
	r.log.Gate = func() { begins <- struct{}{}; <-held }
	return begins, func() { close(held) }
}

// failsWhile is the fault of a log as long as a flag is set.
func failsWhile(set *atomic.Bool, fault memlog.Fault) func(uint64) memlog.Fault {
	return func(uint64) memlog.Fault {
		if set.Load() {
			return fault
		}
		return memlog.None
	}
}

// errWhile returns an error as long as a flag is set.
func errWhile(set *atomic.Bool, err error) func() error {
	return func() error {
		if set.Load() {
			return err
		}
		return nil
	}
}

// submit submits a command under a new id.
func (r *rig) submit(c commands.Command) (commands.Outcome, error) {
	r.t.Helper()
	return r.answered(submitted(c))
}

// answered waits for the answer to a command; the limit is for hangs.
func (r *rig) answered(s commands.Submission) (commands.Outcome, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	outcome, err := r.Submit(ctx, s)
	if errors.Is(err, commands.ErrNoAnswer) {
		r.t.Fatalf("%s was not answered", commands.NameOf(s.Command))
	}
	return outcome, err
}

// answeredAtLast waits for the answer of a log that takes commits again.
func (r *rig) answeredAtLast(s commands.Submission) (commands.Outcome, error) {
	r.t.Helper()
	outcome, err := r.answered(s)
	for errors.Is(err, commands.ErrLogUnavailable) { // the one that tries the log is under way
		outcome, err = r.answered(s)
	}
	return outcome, err
}

func (r *rig) accept(c commands.Command) ledger.Address {
	r.t.Helper()
	outcome, err := r.submit(c)
	if err != nil || outcome.Rejection != nil {
		r.t.Fatalf("%s: %v, %v", commands.NameOf(c), outcome.Rejection, err)
	}
	return outcome.Address
}

// stops submits a command that the writer does not answer, because it stops for a reason.
func (r *rig) stops(why error) {
	r.t.Helper()
	for _, when := range []string{"as it stops", "afterwards"} {
		if _, err := r.submit(trait(99)); !errors.Is(err, commands.ErrStopped) {
			r.t.Errorf("%s: %v", when, err)
		}
		<-r.Done()
	}
	if err := r.Close(); !errors.Is(err, why) {
		r.t.Errorf("it stopped for %v, not %v", err, why)
	}
}

func trait(n int) commands.Command {
	return &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%d", n)}
}

// TestAppendsThatKeepFailing: after some tries a caller is told that the log
// cannot be written. Its command was not carried out, and later ones are.
func TestAppendsThatKeepFailing(t *testing.T) {
	t.Parallel()
	for _, fault := range []memlog.Fault{memlog.Conflict, memlog.LostAppend} {
		r := newRig(t)
		var failing atomic.Bool
		var tries atomic.Int32
		failing.Store(true)
		fails := failsWhile(&failing, fault)
		r.log.Decide = func(sequence uint64) memlog.Fault { tries.Add(1); return fails(sequence) }
		_, err := r.submit(trait(1))
		if n := tries.Load(); !errors.Is(err, commands.ErrLogUnavailable) || !commands.Passing(err) || n != 10 {
			t.Errorf("fault %d: %v after %d tries", fault, err, n)
		}
		failing.Store(false)
		if at := r.accept(trait(1)); at.Sequence != 2 {
			t.Errorf("fault %d: afterwards it is at %s", fault, at)
		}
	}
}

// TestCloseDecidesWhatFailed: a commit that fails while the writer is being closed is decided again, and answered.
func TestCloseDecidesWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begun, release := r.hold()
		var failed atomic.Bool
		r.log.Decide = func(uint64) memlog.Fault {
			if failed.CompareAndSwap(false, true) {
				return memlog.LostAppend
			}
			return memlog.None
		}
		told := r.start(submitted(trait(1)))
		<-begun
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }()
		synctest.Wait() // the loop waits for the append alone
		release()
		if err := <-closed; err != nil {
			t.Errorf("closed: %v", err)
		}
		if a := <-told; a.err != nil || a.Address.Sequence != 2 {
			t.Errorf("the command that failed at first: %+v", a)
		}
	})
}

// TestLostEnd: a log that has lost durable commits is never written again.
func TestLostEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.accept(trait(1))
	r.log.Edit(func(entries [][]byte) [][]byte { return entries[:1] })
	r.stops(ledger.ErrLogBehind)
	if last, err := r.log.Last(t.Context()); last != 1 || err != nil {
		t.Errorf("the log was written to %d, %v", last, err)
	}
}

// TestForeignEntryAtTheEnd: a foreign entry at the end of the log that resembles
// no commit is skipped and reported. A damaged commit there stops the writer.
func TestForeignEntryAtTheEnd(t *testing.T) {
	t.Parallel()
	foreign := func(data []byte) *rig {
		r := newRig(t)
		r.log.Edit(func(entries [][]byte) [][]byte { return append(entries, data) })
		return r
	}
	r := foreign([]byte("hello"))
	first, second := r.accept(trait(1)), r.accept(trait(2))
	if first.Sequence != 3 || second.Sequence != 4 {
		t.Errorf("behind a foreign entry commands are at %s and %s", first, second)
	}
	if logs := r.logs.String(); strings.Count(logs, "another program has written into it") != 1 {
		t.Errorf("%s", logs)
	}
	foreign(ledgertest.Encoded(t, ledgertest.Commits(t, 2)[1])).stops(ledger.ErrChain)
}

// TestUnreadableModels: while the read models cannot be read, commands are refused without effect.
func TestUnreadableModels(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	r := newRig(t)
	r.models.ready = errWhile(&broken, errInjected)
	broken.Store(true)
	if _, err := r.submit(trait(1)); !errors.Is(err, commands.ErrUnreadable) || !errors.Is(err, errInjected) {
		t.Error(err)
	}
	if s, err := r.Fork(t.Context()); s != nil || !errors.Is(err, commands.ErrUnreadable) {
		t.Errorf("a fork: %v, %v", s, err)
	}
	broken.Store(false)
	if at := r.accept(trait(1)); at.Sequence != 2 {
		t.Errorf("afterwards it is at %s", at)
	}
}

// TestUnreadableIDs: a writer that cannot find out whether a command id is known
// must decide neither the command nor any other.
func TestUnreadableIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.models.command = func() error { return errInjected }
	r.stops(errInjected)
}

// TestFoldFails: a durable commit that cannot be folded is read from the log and folded again. If that fails, too,
// the writer stops and answers all waiting calls.
func TestFoldFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after error
		times         int32
		stops         bool
	}{
		"once, before it is written":  {before: errInjected, times: 1},
		"once, after it was written":  {after: errInjected, times: 1},
		"always":                      {before: errInjected, times: 1 << 30, stops: true},
		"always, after it is written": {after: errInjected, times: 1 << 30},
	} {
		r := newRig(t)
		left := atomic.Int32{}
		left.Store(c.times)
		r.models.fold = func() (error, error) {
			if left.Add(-1) < 0 {
				return nil, nil
			}
			return c.before, c.after
		}
		if c.stops {
			r.stops(errInjected)
			continue
		}
		at := r.accept(trait(1))
		if last, err := r.log.Last(t.Context()); at != (ledger.Address{Sequence: 2}) || last != 2 || err != nil {
			t.Errorf("%s: it is at %s, and the log at %d, %v", name, at, last, err)
		}
	}
}

// TestClosedWhileTheLogIsSilent: Close does not wait for a log that is out of
// reach. It returns soon, and all waiting calls are answered.
func TestClosedWhileTheLogIsSilent(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(context.Context) error{
		"refuses": func(context.Context) error { return ledger.ErrUnavailable },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			asked := make(chan struct{}, 1000)
			r.log.Away = func(ctx context.Context, _ uint64) error {
				asked <- struct{}{}
				return last(ctx)
			}
			r.log.Decide = func(uint64) memlog.Fault { return memlog.LostAppend }
			first := r.start(submitted(trait(1)))
			<-asked
			second := r.start(submitted(trait(2))) // waits in the queue
			if err := r.Close(); !errors.Is(err, commands.ErrStopped) || !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("closed: %v", err)
			}
			for i, told := range []<-chan answer{first, second} {
				if a := <-told; !errors.Is(a.err, commands.ErrStopped) {
					t.Errorf("command %d: %v", i+1, a.err)
				}
			}
		})
	}
}

// TestTooLarge: a record that the log cannot take is rejected with its size. One
// that merely does not fit beside others waits for the next commit.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	log := &memlog.Log{MaxBytes: 64 << 10}
	l := commandstest.Start(t, t.TempDir(), log)
	node := func(bytes int) commands.Command {
		return &commands.CreateNode{Node: commandstest.NewID(), NodeFields: commands.NodeFields{
			Driver: new("fake"), Extra: ledger.Document(`{"a":"` + strings.Repeat("x", bytes) + `"}`),
		}}
	}
	outcome := l.Submit(t, node(64<<10))
	if r := outcome.Rejection; r == nil || r.Code != demand.CodeTooLarge || r.Facts.LimitBytes != 64<<10 ||
		r.Facts.SizeBytes <= 64<<10 {
		t.Fatalf("%+v", outcome.Rejection)
	}
	together := commandstest.StartTogether(t) // of 1 MiB a commit
	var list []commands.Command
	for range 40 {
		list = append(list, node(60<<10))
	}
	perCommit := make(map[uint64]int)
	for _, outcome := range together.Submit(t, list...) {
		if outcome.Rejection != nil {
			t.Fatal(outcome.Rejection)
		}
		perCommit[outcome.Address.Sequence]++
	}
	most := slices.Max(slices.Collect(maps.Values(perCommit)))
	if most > 17 || len(perCommit) < 3 || len(perCommit) > 5 { // 17 of 60 KiB are below 1 MiB
		t.Errorf("40 records of 60 KiB are in %d commits: %v", len(perCommit), perCommit)
	}
}

// TestOneIDManyTimes submits the same id again and again while the first call is under way. The same command gets the
// first result, another command is refused, and the outcome is decided once.
func TestOneIDManyTimes(t *testing.T) {
	t.Parallel()
	l := commandstest.StartTogether(t)
	l.Submit(t, trait(0))
	for name, c := range map[string]struct {
		first, other commands.Command
		told         string // the first, the same, another command under its id, and the same
	}{
		"accepted":      {trait(1), trait(2), "[recorded repeated command_id_reused repeated]"},
		"rejected":      {trait(0), trait(3), "[trait_exists trait_exists command_id_reused trait_exists]"},
		"nothing to do": {&commands.SetNodeProviders{Limit: 1}, trait(4), "[nothing repeated command_id_reused repeated]"},
	} {
		first, other := submitted(c.first), submitted(c.other)
		other.ID = first.ID
		var told []string
		outcomes := l.SubmitAll(t, first, first, other, first)
		for i, o := range outcomes {
			told = append(told, toldBy(o))
			if i != 2 && o.Address != outcomes[0].Address || i == 2 && strings.Contains(o.Rejection.String(), "0.0") {
				t.Errorf("%s: outcome %d: %+v", name, i, o)
			}
		}
		if fmt.Sprint(told) != c.told {
			t.Errorf("%s: %v, not %s", name, told, c.told)
		}
	}
	s, err := l.Writer.Fork(t.Context())
	if err != nil || s.HasTrait("CUSTOM_2") || s.HasTrait("CUSTOM_3") || s.HasTrait("CUSTOM_4") {
		t.Errorf("another command under a used id was carried out, %v", err)
	}
}

// toldBy is what an outcome tells in a word.
func toldBy(o commands.Outcome) string {
	switch {
	case o.Rejection != nil:
		return string(o.Rejection.Code)
	case o.Repeated:
		return "repeated"
	case o.Address.Sequence > 0:
		return "recorded"
	}
	return "nothing"
}

// TestBusy: a full queue refuses.
func TestBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held := make(chan struct{})
	r.log.Gate = func() { <-held }
	var refused atomic.Int64
	// With the log at a standstill the queue fills up behind the commits that may be decided meanwhile.
	for range 4 * writer.QueueLength {
		r.Start(submitted(trait(1)), func(_ commands.Outcome, err error) {
			if errors.Is(err, commands.ErrBusy) {
				refused.Add(1)
			}
		})
	}
	if refused.Load() == 0 {
		t.Error("the queue never filled up")
	}
	close(held)
}

// TestNoID: a command without an id cannot be retried safely, and is refused.
func TestNoID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	outcome, err := r.Submit(t.Context(), commands.Submission{Command: trait(1)})
	if err != nil || outcome.Rejection == nil || outcome.Rejection.Facts.Field != "command_id" {
		t.Errorf("%+v, %v", outcome, err)
	}
	outcome, err = r.Submit(t.Context(), commands.Submission{Command: trait(1), DryRun: true})
	if err != nil || outcome.Rejection != nil || len(outcome.Events) != 1 {
		t.Errorf("a dry run: %+v, %v", outcome, err)
	}
}
