package rejected_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
)

// slow is a store that blocks until it is released.
type slow struct {
	let  chan struct{}
	mu   sync.Mutex
	kept [][]byte // guarded by mu
	err  error
}

func (s *slow) Append(_ context.Context, data []byte) error {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, data)
	return s.err
}

func (s *slow) Newest(_ context.Context, yield func([]byte) (bool, error)) error {
	for i := len(s.kept) - 1; i >= 0; i-- {
		if more, err := yield(s.kept[i]); err != nil || !more {
			return err
		}
	}
	return nil
}

func rejection(consumers int) commands.Rejected {
	c := &commands.AllocateForConsumers{}
	for range consumers {
		c.Allocations = append(
			c.Allocations, commands.ConsumerAllocations{Consumer: ledger.UUID(uuid.New()), Project: "p", User: "u"},
		)
	}
	return commands.Rejected{
		Submission: commands.Submission{ID: ledger.UUID(uuid.New()), Actor: "a", Command: c},
		Place: ledger.Address{
			Sequence: 7,
		}, Rejection: &demand.Rejection{Code: demand.CodeClassUnknown, Message: "no"},
	}
}

// TestRejectionsBeyondTheBoundAreCounted: rejections beyond the bound are dropped and
// counted at once; the
// rest is stored, newest first.
func TestRejectionsBeyondTheBoundAreCounted(t *testing.T) {
	store := &slow{let: make(chan struct{})}
	k := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	const flood = 20_000
	last := rejection(1)
	k.Keep(rejection(9000)) // alone, whatever it weighs
	k.Keep(rejection(9000))
	for range flood {
		k.Keep(rejection(1))
	}
	close(store.let)
	k.Stop()
	k.Keep(last) // the Keeper has stopped
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 1_000_000)
	if err != nil || len(list) == 0 || uint64(len(list))+k.Dropped() != flood+2 || k.Dropped() < flood/2 {
		t.Fatalf("%d kept, %d dropped of %d, %v", len(list), k.Dropped(), flood+2, err)
	}
	oldest := list[len(list)-1]
	command, err := commands.Decode(oldest.Command, oldest.Body)
	if err != nil || len(command.Consumers()) != 9000 || oldest.Actor != "a" || oldest.Place.Sequence != 7 {
		t.Errorf("%+v, %v", oldest.Place, err)
	}
}

// TestTrouble: rejections that cannot be stored are counted, and damage is
// reported.
func TestTrouble(t *testing.T) {
	store := &slow{let: make(chan struct{}), err: errors.New("full")}
	close(store.let)
	k := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	k.Keep(rejection(1))
	k.Stop()
	if k.Dropped() != 1 {
		t.Errorf("%d dropped", k.Dropped())
	}
	for _, damaged := range []string{"", "{", `[{"version":9}]`, `[{"version":1}]`} {
		store.kept = [][]byte{[]byte(damaged)}
		if _, err := rejected.List(t.Context(), store, rejected.Filter{}, 1); !errors.Is(err, rejected.ErrDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// TestOthersEvidenceStays: a client whose commands are rejected without an end pushes out
// its own, and nothing of another client, also after a restart.
func TestOthersEvidenceStays(t *testing.T) {
	t.Parallel()
	store := &slow{let: make(chan struct{})}
	close(store.let)
	const size = 100_000
	of := func(actor string) commands.Rejected {
		one := rejection(0)
		one.Actor = actor
		return one
	}
	keep := func(actor string, many int) (dropped uint64) {
		k := rejected.Start(store, size, slog.New(slog.DiscardHandler))
		for range many {
			k.Keep(of(actor))
		}
		k.Stop()
		return k.Dropped()
	}
	if n := keep("modest", 10); n > 0 {
		t.Errorf("%d of a client that has few were dropped", n)
	}
	for range 2 {
		if n := keep("greedy", 500); n == 0 {
			t.Error("none of a client that has too many was dropped")
		}
	}
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 10_000)
	kept := map[string]int{}
	for _, one := range list {
		kept[one.Actor] += len(one.Body) + 512
	}
	if err != nil || kept["greedy"] > size || kept["modest"] == 0 {
		t.Errorf("%v, %v", kept, err)
	}
}
