package writer_test

import (
	"context"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// operation is one step of a client on a provider of a few VCPUs: take one,
// return it, or read the usage.
type operation struct{ kind string }

// usedVCPUs is the sequential specification: a counter from 0 to capacity.
func usedVCPUs(capacity int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			used := state.(int)
			switch input.(operation).kind {
			case "take":
				if output.(int) == 0 {
					return used == capacity, used // refused
				}
				return used < capacity, used + 1
			case "give":
				return used > 0, used - 1
			}
			return output.(int) == used, used
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// TestLinearizable records what concurrent clients see, on a log that is slow and
// unreliable, and looks for an order that explains it.
func TestLinearizable(t *testing.T) {
	const capacity, clients, steps = 3, 5, 24
	log := &memlog.Log{}
	l := commandstest.Start(t, t.TempDir(), log)
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: capacity})
	random := rand.New(rand.NewSource(1))
	log.Decide = func(uint64) memlog.Fault {
		if random.Intn(5) > 0 {
			return memlog.None
		}
		return memlog.Fault(1 + random.Intn(3))
	}
	var mu sync.Mutex
	var history []porcupine.Operation
	begun := time.Now()
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewSource(int64(client)))
			held := commandstest.NewID()
			holding := false
			for range steps {
				op := operation{kind: []string{"take", "read", "take"}[random.Intn(3)]}
				if holding && op.kind == "take" {
					op.kind = "give"
				}
				call := time.Since(begun).Nanoseconds()
				output := step(t, l, provider, held, op)
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: client, Input: op, Output: output, Call: call, Return: time.Since(begun).Nanoseconds(),
				})
				mu.Unlock()
				switch op.kind {
				case "take":
					holding = output == 1
				case "give":
					holding = false
				}
			}
		})
	}
	all.Wait()
	if result := porcupine.CheckOperationsTimeout(usedVCPUs(capacity), history, time.Minute); result != porcupine.Ok {
		t.Errorf("no order explains what the clients saw: %v", result)
	}
}

func step(t *testing.T, l *commandstest.Ledger, provider, consumer ledger.UUID, op operation) int {
	var c commands.Command
	switch op.kind {
	case "take":
		c = commandstest.Allocate(consumer, provider, "VCPU", 1)
	case "give":
		c = &commands.ReleaseConsumer{Consumer: consumer}
	default:
		p, _, err := l.Views.View().Provider(provider)
		if err != nil {
			t.Error(err)
			return -1
		}
		return int(p.Inventories[0].Used)
	}
	id := commandstest.NewID()
	for {
		outcome, err := l.Writer.Submit(context.Background(), commands.Submission{ID: id, Actor: "test", Command: c})
		if err != nil {
			continue // the same id again is safe
		}
		if outcome.Rejection != nil {
			return 0
		}
		return 1
	}
}
