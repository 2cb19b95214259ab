package processes_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
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

func rejects(t *testing.T, l *commandstest.Ledger, c commands.Command, want demand.Code) {
	t.Helper()
	if r := l.Submit(t, c).Rejection; r == nil || r.Code != want {
		t.Errorf("%s: %v, want %s", commands.NameOf(c), r, want)
	}
}

// TestReservations reserves, confirms, cancels, moves and expires reservations,
// even over a restart, and checks the free amounts after each step.
func TestReservations(t *testing.T) {
	log, dir := &memlog.Log{}, t.TempDir()
	l := commandstest.Start(t, dir, log)
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 10})
	other := l.Provider(t, "q", commands.Inventory{Class: "VCPU", Total: 10})
	used := func(id ledger.UUID, want int64) {
		t.Helper()
		p, _, err := l.Views.View().Provider(id)
		if err != nil || p.Inventories[0].Used != want {
			t.Errorf("%d used, %v; want %d", p.Inventories[0].Used, err, want)
		}
	}
	until := func(id ledger.UUID) int64 {
		c, found, err := l.Views.View().Consumer(id)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return c.ReservedUntil
	}
	a, b, c, d := commandstest.NewID(), commandstest.NewID(), commandstest.NewID(), commandstest.NewID()
	l.Accept(t, reserve(a, provider, 4, 60))
	l.Accept(t, reserve(b, provider, 3, 3600))
	moved := l.Accept(t, reserve(c, provider, 2, 7200))
	used(provider, 9)
	rejects(t, l, commandstest.Allocate(d, provider, "VCPU", 2), demand.CodeCapacityExceeded)
	l.Accept(t, commandstest.Allocate(d, provider, "VCPU", 1))
	rejects(t, l, &commands.ConfirmReservation{Consumer: d}, demand.CodeNotReserved)
	rejects(t, l, &commands.CancelReservation{Consumer: d}, demand.CodeNotReserved)
	generation := l.Accept(t, &commands.ConfirmReservation{Consumer: a}).Sequence
	rejects(t, l, &commands.ConfirmReservation{Consumer: a}, demand.CodeNotReserved)
	again := reserve(a, provider, 1, 60)
	again.Allocations[0].Generation = &generation
	rejects(t, l, again, demand.CodeNotReserved)
	l.Accept(t, &commands.CancelReservation{Consumer: b})
	rejects(t, l, &commands.CancelReservation{Consumer: b}, demand.CodeConsumerNotFound)
	used(provider, 7)
	// A reservation that another command moves keeps its end.
	end := until(c)
	move := commandstest.Allocate(c, other, "VCPU", 5)
	move.Allocations[0].Generation = &moved.Sequence
	l.Accept(t, move)
	if until(c) != end {
		t.Errorf("moved, the reservation ends at %d, not %d", until(c), end)
	}
	used(other, 5)
	for _, seconds := range []float64{0, -1, 1e-12, commands.MaxReservationSeconds + 1} {
		rejects(t, l, reserve(commandstest.NewID(), provider, 1, seconds), demand.CodeInvalid)
	}
	empty := reserve(commandstest.NewID(), provider, 1, 60)
	empty.Allocations[0].Resources = nil
	rejects(t, l, empty, demand.CodeInvalid)

	l.Stop(t)
	l = commandstest.Start(t, dir, log)
	now := &clock{}
	now.at.Store(time.Now().UnixNano())
	process := processes.StartExpirer(l.Writer, l.Views, now.now, slog.New(slog.DiscardHandler))
	defer process.Stop()
	now.forward(time.Hour)
	l.Accept(t, reserve(b, other, 1, 0.001)) // wakes it up
	wait(t, l, b)
	if until(c) != end {
		t.Error("a reservation ended too early")
	}
	now.forward(2 * time.Hour)
	l.Accept(t, reserve(b, other, 1, 0.001))
	wait(t, l, c)
	used(provider, 5) // a, confirmed, and d
	history, err := l.Views.View().History('c', c, 0, 10)
	if err != nil || len(history) != 3 {
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
		if err != nil {
			t.Fatal(err)
		}
		return !found
	})
}
