package placing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/placing"
	"github.com/allot-project/allot/projector/candidates"
)

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
