package processes_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

var errTrouble = errors.New("trouble")

// troubled is a ledger whose first reads and commands fail for a process.
type troubled struct {
	*projector.Projector
	submit commands.Submitter

	mu       sync.Mutex
	reads    int // that fail, still
	commands int // number of further failures: one half with an error, the other with a rejection
}

// fails counts a failure, and returns how many more are to come.
func (l *troubled) fails(left *int) (more int, fails bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*left--
	return *left, *left >= 0
}

func (l *troubled) Reservations(limit int) ([]projector.Reservation, error) {
	if _, fails := l.fails(&l.reads); fails {
		return nil, errTrouble
	}
	return l.Projector.Reservations(limit)
}

func (l *troubled) WaitingNodeAllocations(after uint64, limit int) ([]*ledger.NodeAllocation, error) {
	if _, fails := l.fails(&l.reads); fails {
		return nil, errTrouble
	}
	return l.Projector.WaitingNodeAllocations(after, limit)
}

func (l *troubled) RequestOf(a *ledger.NodeAllocation) (ledger.Address, bool, error) {
	if _, fails := l.fails(&l.reads); fails {
		return ledger.Address{}, false, errTrouble
	}
	return l.Projector.RequestOf(a)
}

func (l *troubled) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	if more, fails := l.fails(&l.commands); fails {
		if more%2 == 0 {
			return commands.Outcome{}, commands.ErrBusy
		}
		return commands.Outcome{Rejection: &demand.Rejection{Code: demand.CodeTooLarge}}, nil
	}
	return l.submit.Submit(ctx, s)
}

// saysAll checks that a log has some texts.
func saysAll(t *testing.T, logs *ledgertest.Output, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(logs.String(), text) {
			t.Errorf("the log does not say %q:\n%.2000s", text, logs)
		}
	}
}

// until waits until a condition holds in the read models.
func until(t *testing.T, l *commandstest.Ledger, what string, is func(projector.View) bool) {
	t.Helper()
	for deadline := time.After(5 * time.Minute); ; {
		changed := l.Views.Changed()
		if is(l.Views.View()) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: still not so", what)
		}
	}
}

func numbered(kind byte, n int) ledger.UUID {
	id := ledger.UUID{0: kind, 6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// TestExpirerInTrouble: all reservations end, each once, even if there are more
// than are ended at a time, and reading and submitting fail first.
func TestExpirerInTrouble(t *testing.T) {
	t.Parallel()
	const n = 600
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 2 * n})
	all := &commands.Batch{}
	for i := range n {
		all.Commands = append(all.Commands, reserve(numbered(2, i), provider, 1, 60+float64(i)/1000))
	}
	l.Accept(t, all)
	l.Accept(t, reserve(numbered(2, n), provider, 1, 3600))
	logs := new(ledgertest.Output)
	in := &troubled{Projector: l.Views, submit: l.Writer, reads: 2, commands: 10}
	later := func() time.Time { return time.Now().Add(2 * time.Minute) }
	process := processes.StartExpirer(in, in, later, slog.New(slog.NewTextHandler(logs, nil)))
	defer process.Stop()
	until(t, l, "all that are over have ended", func(view projector.View) bool {
		p, found, err := view.Provider(provider)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return p.Inventories[0].Used == 1
	})
	if ended := recordsOf(t, l, "ExpireReservation"); ended != n {
		t.Errorf("%d records end %d reservations", ended, n)
	}
	saysAll(t, logs, "reservations cannot be read", "trouble", "reservations are not ended")
	if told := strings.Count(logs.String(), "reservations are not ended"); told != 1 {
		t.Errorf("the same trouble was told %d times within a moment", told)
	}
}

// recordsOf counts the records of a command.
func recordsOf(t *testing.T, l *commandstest.Ledger, name string) (n int) {
	t.Helper()
	last := l.Views.Checkpoint().Sequence
	ledgertest.OK(t, chain.Read(t.Context(), l.Log, ledger.Head{}, last, func(c *ledger.Commit) error {
		for _, record := range c.Records {
			if record.Command == name {
				n++
			}
		}
		return nil
	}))
	return n
}

// TestNodePlacerInTrouble: every allocation is decided once, by a record that
// names the one that requested it, even if more wait than are decided at a time,
// and reading and submitting fail first.
func TestNodePlacerInTrouble(t *testing.T) {
	t.Parallel()
	const nodes, requests = 100, 1100 // of which 512 are decided at a time
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	some, all := &commands.Batch{}, &commands.Batch{}
	driver, class := "fake", "c"
	for i := range nodes {
		some.Commands = append(some.Commands,
			&commands.CreateNode{
				Node: numbered(5, i), NodeFields: commands.NodeFields{Driver: &driver, ResourceClass: &class},
				ProvisionState: ledger.NodeAvailable,
			},
			&commands.SetNodePowerState{Node: numbered(5, i), Target: "power off"},
		)
	}
	for i := range requests {
		all.Commands = append(all.Commands, &commands.RequestNodeAllocation{
			Allocation: numbered(6, i), NodeRequest: commands.NodeRequest{ResourceClass: class, Name: fmt.Sprint("a", i)},
		})
	}
	l.Accept(t, some)
	requested := l.Accept(t, all)
	logs := new(ledgertest.Output)
	in := &troubled{Projector: l.Views, submit: l.Writer, reads: 4, commands: 10}
	process := processes.StartNodePlacer(in, in, slog.New(slog.NewTextHandler(logs, nil)))
	defer process.Stop()
	until(t, l, "no allocation waits", func(projector.View) bool {
		waiting := commandstest.Must(l.Views.WaitingNodeAllocations(0, 1))
		return len(waiting) == 0
	})
	active := 0
	for i := range requests {
		a, found, err := l.Views.View().NodeAllocation(numbered(6, i))
		if err != nil || !found || a.State == ledger.NodeAllocating {
			t.Fatalf("allocation %d: %+v, %v", i, a, err)
		}
		if a.State == ledger.NodeAllocationActive {
			active++
		}
		history, err := l.Views.View().History(projector.NodeAllocationHistory, a.UUID, 0, 10)
		if err != nil || len(history) != 2 {
			t.Fatalf("the history of allocation %d: %v, %v", i, history, err)
		}
		record, _, err := l.Views.View().Record(history[0])
		if err != nil || record.Actor != processes.NodePlacerActor || record.Cause == nil || *record.Cause != requested {
			t.Fatalf("allocation %d was decided by %+v, %v; it was requested at %s", i, record, err, requested)
		}
	}
	if decided := recordsOf(t, l, "ChooseNode"); decided != requests || active != nodes {
		t.Errorf("%d records decide %d requests, %d of them get one of %d nodes", decided, requests, active, nodes)
	}
	saysAll(t, logs, "waiting node allocations cannot be read", "trouble", "node allocations are not decided")
}
