package processes_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector/check"
)

// rootOfHour waits for the root of an hour.
func rootOfHour(t *testing.T, l *commandstest.Ledger, hour int64) {
	t.Helper()
	ledgertest.WaitFor(t, "the root of an hour", func() bool {
		_, newest, err := l.Views.View().ConsumptionRoots()
		if err != nil {
			t.Error(err)
		}
		return newest >= hour*ledger.ConsumptionPeriod
	}, func() any { return hour })
}

// TestConsumptionIsCommittedTo: at each whole hour the ledger is committed to what was consumed,
// also to the hours that were missed, whatever comes in between, and a replay of the log gives
// the same roots.
func TestConsumptionIsCommittedTo(t *testing.T) {
	t.Parallel()
	log, dir := &memlog.Log{}, t.TempDir()
	c := &clock{}
	const first = int64(480_000) // an hour of Unix time
	c.at.Store(first*ledger.ConsumptionPeriod + 7)
	l := commandstest.StartWith(t, dir, log, func(o *writer.Options) { o.Now = c.now })
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 10})
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), host, "VCPU", 3))
	holdWhatIsDeleted(t, l, c)
	committer := processes.StartConsumptionCommitter(l.Writer, l.Views, c.now, slog.New(slog.DiscardHandler))
	c.forward(90 * time.Minute)
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), host, "VCPU", 2))
	rootOfHour(t, l, first+1)
	committer.Stop()
	c.forward(3 * time.Hour)
	committer = processes.StartConsumptionCommitter(l.Writer, l.Views, c.now, slog.New(slog.DiscardHandler))
	defer committer.Stop()
	rootOfHour(t, l, first+4)

	report := verifyRoots(t, log, l.Views.View().Sequence())
	if report.Err() != nil || report.Roots != 4 {
		t.Errorf("%d roots are good, %v", report.Roots, report.Err())
	}
}

// holdWhatIsDeleted has something of a class held for a minute, after which there is no such
// class any more.
func holdWhatIsDeleted(t *testing.T, l *commandstest.Ledger, c *clock) {
	t.Helper()
	l.Accept(t, &commands.CreateResourceClass{Name: "CUSTOM_A"})
	host := l.Provider(t, "other", commands.Inventory{Class: "CUSTOM_A", Total: 1})
	consumer := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(consumer, host, "CUSTOM_A", 1))
	c.forward(time.Minute)
	l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer})
	l.Accept(t, &commands.RenameResourceClass{Name: "CUSTOM_A", NewName: "CUSTOM_B"})
	l.Accept(t, &commands.DeleteInventories{Provider: host})
	l.Accept(t, &commands.DeleteResourceClass{Name: "CUSTOM_B"})
}

func verifyRoots(t *testing.T, log ledger.Log, last uint64) *check.Report {
	t.Helper()
	return commandstest.Must(check.VerifyLog(t.Context(), log, last, check.Evidence{Temporary: t.TempDir()}))
}

// TestFalseRootIsFound: a root that does not follow from the log is found by its replay, also one that came days late.
func TestFalseRootIsFound(t *testing.T) {
	t.Parallel()
	log, c := &memlog.Log{}, &clock{}
	c.at.Store(480_000*ledger.ConsumptionPeriod + 7)
	l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.Now = c.now })
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 10})
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), host, "VCPU", 3))
	set := func(late time.Duration, change func(*ledger.ConsumptionRoot)) {
		t.Helper()
		c.forward(time.Hour)
		at := c.at.Load() - int64(late)
		at -= at % ledger.ConsumptionPeriod
		root, last, err := l.Views.ConsumptionRoot(at)
		ledgertest.OK(t, err)
		change(&root)
		l.Accept(t, &commands.SetConsumptionRoot{ConsumptionRoot: root, Last: last})
	}
	set(0, func(*ledger.ConsumptionRoot) {})
	set(0, func(r *ledger.ConsumptionRoot) { r.Root[0] ^= 1 })
	set(0, func(r *ledger.ConsumptionRoot) { r.Projects++ })
	for _, pause := range []time.Duration{2 * time.Hour, 48 * time.Hour} {
		c.forward(pause)
		l.Accept(t, commandstest.Allocate(commandstest.NewID(), host, "VCPU", 1))
	}
	set(50*time.Hour, func(*ledger.ConsumptionRoot) {})
	set(50*time.Hour, func(r *ledger.ConsumptionRoot) { r.Root[0] ^= 1 })
	report := verifyRoots(t, log, l.Views.View().Sequence())
	if report.Roots != 2 || len(report.Findings) != 3 {
		t.Errorf("%d roots are good, and found was %v", report.Roots, report.Err())
	}
	var found *check.Finding
	if !errors.As(report.Err(), &found) || found.What != "root of consumption" {
		t.Errorf("found: %v", report.Err())
	}
}
