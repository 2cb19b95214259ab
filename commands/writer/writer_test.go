package writer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/snapshots"
)

// TestFaultyLog submits from many clients while appends conflict, vanish or lose their acknowledgement. Every
// accepted command must be in the log exactly once, capacity must hold, replay must give what the writer has, and
// every snapshot is of a commit in the log.
func TestFaultyLog(t *testing.T) {
	for seed := range int64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			log := &memlog.Log{}
			var saved []ledger.Head // one is saved at a time
			due := snapshots.NewSchedule(snapshots.ScheduleOptions{
				Records: 1, Save: func(s *ledger.State) { saved = append(saved, s.Head()) },
			})
			l := commandstest.StartWith(t, t.TempDir(), log, func(o *writer.Options) { o.Snapshots = due })
			provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 100})
			random := rand.New(rand.NewSource(seed))
			log.Decide = func(uint64) memlog.Fault {
				if random.Intn(3) > 0 {
					return memlog.None
				}
				return memlog.Fault(1 + random.Intn(3))
			}
			accepted := submitMany(t, l, provider, 16, 20)
			checkLog(t, l.Log, accepted)
			checkCapacity(t, l, provider)
			commandstest.CheckReplay(t, l)
			l.Stop(t)
			due.Wait() // the writer does not
			for _, head := range saved {
				ledgertest.OK(t, log.Read(t.Context(), head.Sequence, head.Sequence, func(e ledger.Entry) error {
					if head.Digest != ledger.DigestOf(e.Data) {
						t.Errorf("the snapshot at %d is not of what the log holds", head.Sequence)
					}
					return nil
				}))
			}
		})
	}
}

// submitMany lets clients allocate one VCPU each, again and again, and
// returns the ids of the commands that were accepted.
func submitMany(
	t *testing.T, l *commandstest.Ledger, provider ledger.UUID, clients, each int,
) map[ledger.UUID]ledger.Address {
	t.Helper()
	var mu sync.Mutex
	accepted := make(map[ledger.UUID]ledger.Address)
	var clientsDone sync.WaitGroup
	for range clients {
		clientsDone.Go(func() {
			for range each {
				s := submitted(commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1))
				outcome, err := l.Writer.Submit(context.Background(), s)
				if err != nil && !errors.Is(err, commands.ErrLogUnavailable) {
					t.Errorf("submit: %v", err)
				}
				if err == nil && outcome.Rejection == nil {
					mu.Lock()
					accepted[s.ID] = outcome.Address
					mu.Unlock()
				}
			}
		})
	}
	clientsDone.Wait()
	return accepted
}

// checkLog checks that every accepted command is in the log exactly once, at the address in its answer.
func checkLog(t *testing.T, log ledger.Log, accepted map[ledger.UUID]ledger.Address) {
	t.Helper()
	last := commandstest.Must(log.Last(context.Background()))
	found := make(map[ledger.UUID]ledger.Address)
	err := chain.Read(context.Background(), log, ledger.Head{}, last, func(c *ledger.Commit) error {
		for i, r := range c.Records {
			if earlier, twice := found[r.CommandID]; twice {
				t.Errorf("command %s is in the log twice: %s and %d.%d", r.CommandID, earlier, c.Sequence, i)
			}
			found[r.CommandID] = ledger.Address{Sequence: c.Sequence, Index: i}
		}
		return nil
	})
	ledgertest.OK(t, err)
	for id, at := range accepted {
		if found[id] != at {
			t.Errorf("command %s was answered %s, but the log has it at %s", id, at, found[id])
		}
	}
}

func checkCapacity(t *testing.T, l *commandstest.Ledger, provider ledger.UUID) {
	t.Helper()
	p, found, err := l.Views.View().Provider(provider)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	for _, inv := range p.Inventories {
		if float64(inv.Used) > inv.Capacity() {
			t.Errorf("%d used of %v", inv.Used, inv.Capacity())
		}
	}
}
