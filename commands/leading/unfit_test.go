package leading_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestWedgedLog: a log that is silent while its servers say that they are well raises an alarm at
// all replicas, which ends when the log goes on.
func TestWedgedLog(t *testing.T) {
	g := startGroup(t, func(_ int, cfg *leading.Config, _ *member) { cfg.Limit = time.Second })
	leader := g.leader()
	silence := make(chan struct{})
	leader.late.Store(&silence)
	answered := make(chan error, 1)
	go func() {
		_, err := leader.Submit(t.Context(), commands.Submission{
			ID: commands.NewID(), Actor: "test", Command: &commands.CreateTrait{Name: "CUSTOM_LATE"},
		})
		answered <- err
	}()
	say := func(wedged bool) {
		t.Helper()
		ledgertest.WaitFor(t, "all replicas to say the same of the log", func() bool {
			for _, m := range g.members {
				if errors.Is(m.Wedged(), leading.ErrWedged) != wedged {
					return false
				}
			}
			return true
		})
	}
	say(true)
	leader.late.Store(nil)
	close(silence)
	say(false)
	<-answered // 503 or not: the log was silent for longer than callers wait
}

// TestUnfitReplica: a replica that should not lead, as one whose disk is full, is not asked to, and
// lets another one lead that can.
func TestUnfitReplica(t *testing.T) {
	var unfit [3]atomic.Bool
	full := errors.New("the disk is full")
	g := startGroup(t, func(i int, cfg *leading.Config, _ *member) {
		cfg.Unfit = func() error {
			if unfit[i].Load() {
				return full
			}
			return nil
		}
	})
	first := g.leader()
	avoided, able := g.others()[0], g.others()[1]
	for i, m := range g.members {
		unfit[i].Store(m == first || m == avoided)
	}
	ledgertest.WaitFor(t, "the fit replica to lead", func() bool { return able.get() != nil })
	for i, m := range g.members {
		unfit[i].Store(m == avoided)
	}
	for range 2 {
		before := g.leader()
		if err := before.StepDown(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		ledgertest.WaitFor(t, "the leader to step down", func() bool { return before.get() == nil })
		if g.leader() == avoided {
			t.Error("a replica with a full disk was asked to lead")
		}
	}
	if outcome := first.submit(t, &commands.CreateTrait{Name: "CUSTOM_BESIDE"}); outcome.Rejection != nil {
		t.Error(outcome.Rejection)
	}
}
