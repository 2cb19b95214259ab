package placing_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/placing"
	"github.com/allot-project/allot/projector/candidates"
)

// TestSearchesGiveWay lets a search and a command share one processor: each time the
// search gives way, the command must come to run. A search that does not, or has waited
// for as long as it may, keeps the processor.
func TestSearchesGiveWay(t *testing.T) {
	for _, c := range []struct {
		name           string
		gives, waited  bool
		commandComesIn bool
	}{
		{name: "it gives way", gives: true, commandComesIn: true},
		{name: "it does not", gives: false},
		{name: "it has waited for long enough", gives: true, waited: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			const turns = 1000
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var steps atomic.Int64
			var command sync.WaitGroup
			var quit atomic.Bool
			command.Go(func() {
				for !quit.Load() {
					steps.Add(1)
					runtime.Gosched()
				}
			})
			runtime.Gosched()
			places := make(chan struct{}, 1)
			before := steps.Load()
			for range turns {
				pace := placing.NewPace(places)
				if c.waited {
					pace.HasWaited()
				}
				if c.gives {
					pace.GiveWay()
				}
				pace.End()
			}
			made := steps.Load() - before
			quit.Store(true)
			command.Wait()
			if c.commandComesIn != (made >= turns/2) {
				t.Errorf("the command came to run %d times of %d", made, turns)
			}
		})
	}
}

// TestSearchesEnd: a search that has computed for 5 seconds has spent its budget, and one
// that is not waited for any more ends.
func TestSearchesEnd(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		worked time.Duration
		want   error
	}{
		{"it goes on", t.Context(), 4 * time.Second, nil},
		{"it took too long", t.Context(), 5*time.Second + 1, candidates.ErrBudget},
		{"it was given up", ended, 0, context.Canceled},
	} {
		pace := placing.NewPace(make(chan struct{}, 1))
		pace.HasWorked(c.worked)
		if err := pace.Pause(c.ctx); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		pace.End()
	}
}

// TestSearchesTakeTurns has a search want to go on while another one computes: it waits if
// there is one place, and until then only, and does not if there are two.
func TestSearchesTakeTurns(t *testing.T) {
	for places, waits := range map[int]bool{1: true, 2: false} {
		shared := make(chan struct{}, places)
		first, second := placing.NewPace(shared), placing.NewPace(shared)
		first.GiveWay()
		var computes atomic.Bool // the first one
		computes.Store(true)
		beside := make(chan bool, 1)
		go func() {
			second.GiveWay()
			beside <- computes.Load()
			second.End()
		}()
		if !waits {
			if !<-beside {
				t.Errorf("with %d places a search waited for another one", places)
			}
			first.End()
			continue
		}
		for range 1000 {
			runtime.Gosched() // the second one comes in here if it does not wait
		}
		computes.Store(false)
		first.GiveWay() // the second one may come in here
		first.End()
		if <-beside {
			t.Errorf("with %d places two searches computed at a time", places)
		}
	}
}

// TestCostlySearchesArePaced keeps the one place of a stage: whatever takes long must ask for it
// again and again, and is decided. What is found at once never asks.
func TestCostlySearchesArePaced(t *testing.T) {
	const hosts = 300
	l := start(t)
	l.Providers(t, hosts, units(8))
	claimed(t, l.Submit(t, oneCore()))              // it makes the order
	wishes := make([]demand.AggregatePreference, 5) // more than the order is divided by: each host is looked at
	for i := range wishes {
		wishes[i] = demand.AggregatePreference{Aggregate: commandstest.NewID(), Weight: 1}
	}
	for _, c := range []struct {
		name   string
		prefer *demand.ClaimPreference
		asks   bool
	}{
		{name: "the next one in the order"},
		{name: "a new order", prefer: &demand.ClaimPreference{Weights: map[string]demand.Weight{"VCPU": 2}}, asks: true},
		{name: "all hosts", prefer: &demand.ClaimPreference{Aggregates: wishes}, asks: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, ended := keepPlace(l.Claims)
			claim := oneCore()
			claim.Prefer = c.prefer
			claimed(t, l.Submit(t, claim))
			close(ended)
			if n := <-asked; (n >= 2) != c.asks {
				t.Errorf("it asked for a place %d times", n)
			}
		})
	}
}

// keepPlace gives a place to one search at a time, and takes it back at once. At the end it
// tells how often it was asked.
func keepPlace(stage *placing.Stage) (asked <-chan int, ended chan struct{}) {
	place, total := make(chan struct{}), make(chan int, 1)
	ended = make(chan struct{})
	stage.SetPlaces(place)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-place:
				place <- struct{}{}
			case <-ended:
				total <- n
				return
			}
		}
	}()
	return total, ended
}
