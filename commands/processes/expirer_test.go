package processes_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// clock is a clock that the test sets.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

func reserve(consumer, provider ledger.UUID, amount int64, seconds float64) *commands.Reserve {
	return &commands.Reserve{
		Allocations: commandstest.Allocate(consumer, provider, "VCPU", amount).Allocations, Seconds: seconds,
	}
}

// TestNewReservationsWakeTheExpirer: a reservation that is made while the expirer waits for the end
// of others ends in its time, and no other one ends too early.
func TestNewReservationsWakeTheExpirer(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 10})
	long, short := commandstest.NewID(), commandstest.NewID()
	l.Accept(t, reserve(long, provider, 2, 7200))
	now := &clock{}
	now.at.Store(time.Now().UnixNano())
	process := processes.StartExpirer(l.Writer, l.Views, now.now, slog.New(slog.DiscardHandler))
	defer process.Stop()
	now.forward(time.Hour)
	l.Accept(t, reserve(short, provider, 1, 0.001))
	wait(t, l, short)
	if _, found, err := l.Views.View().Consumer(long); err != nil || !found {
		t.Errorf("a reservation ended too early: %v", err)
	}
	now.forward(2 * time.Hour)
	l.Accept(t, reserve(short, provider, 1, 0.001))
	wait(t, l, long)
	history, err := l.Views.View().History(projector.ConsumerHistory, long, 0, 10)
	if err != nil || len(history) != 2 {
		t.Fatal(history, err)
	}
	record, _, err := l.Views.View().Record(history[0])
	if err != nil || record.Command != "ExpireReservation" || record.Actor != processes.ExpirerActor {
		t.Errorf("%+v, %v", record, err)
	}
}

// wait waits until a consumer is gone.
func wait(t *testing.T, l *commandstest.Ledger, id ledger.UUID) {
	t.Helper()
	until(t, l, "a consumer is gone", func(view projector.View) bool {
		_, found, err := view.Consumer(id)
		ledgertest.OK(t, err)
		return !found
	})
}
