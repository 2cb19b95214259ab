package snapshots_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/snapshots"
)

// of makes a commit whose records have so many events.
func of(events ...int) *ledger.Commit {
	c := new(ledger.Commit)
	for _, n := range events {
		c.Records = append(c.Records, ledger.Record{Events: make([]ledger.Event, n)})
	}
	return c
}

// holding returns a State with so many providers.
func holding(t *testing.T, providers byte) *ledger.State {
	t.Helper()
	r := ledger.Record{CommandID: ledgertest.ID(9, 9), Time: 1}
	for n := range providers {
		r.Events = append(r.Events, ledger.ProviderCreated{Provider: ledgertest.ID(1, n+1), Name: string(rune('a' + n))})
	}
	return ledgertest.Fold(t, []*ledger.Commit{{Sequence: 1, Records: []ledger.Record{r}}})
}

// TestSchedule: snapshots are due by what a replay costs, which may be more for a State that
// holds much, and by age, if there is anything to replay.
func TestSchedule(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	for name, c := range map[string]struct {
		commits []*ledger.Commit
		after   time.Duration
		held    byte
		want    bool
	}{
		"too few":                  {[]*ledger.Commit{of(1), of(1, 1)}, 0, 0, false},
		"enough records":           {[]*ledger.Commit{of(1), of(1), of(1, 1)}, 0, 0, true},
		"one record of many":       {[]*ledger.Commit{of(200)}, 0, 0, true},
		"records without events":   {[]*ledger.Commit{of(0, 0, 0, 0)}, 0, 0, true},
		"nothing, and much later":  {nil, 2 * time.Hour, 0, false},
		"anything, and much later": {[]*ledger.Commit{of(1)}, time.Hour, 0, true},
		"anything, and not so old": {[]*ledger.Commit{of(1)}, time.Hour - 1, 0, false},
		"enough for twice as many": {[]*ledger.Commit{of(4)}, 0, 9, true},
		"too few for so many":      {[]*ledger.Commit{of(4)}, 0, 10, false},
		"half as many":             {[]*ledger.Commit{of(5)}, 0, 10, true},
	} {
		clock := now
		s := snapshots.NewSchedule(snapshots.ScheduleOptions{
			Save: func(*ledger.State) {}, Records: 4, Age: time.Hour, Now: func() time.Time { return clock },
		})
		for _, commit := range c.commits {
			s.Folded(commit)
		}
		clock = clock.Add(c.after)
		if got := s.Due(holding(t, c.held)); got != c.want {
			t.Errorf("%s: due %v", name, got)
		}
	}
}

// TestScheduleSavesOneAtATime: no snapshot is due while one is saved, what is
// folded meanwhile counts for the next one, and a snapshot that was given up does
// not stop others.
func TestScheduleSavesOneAtATime(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var mu sync.Mutex
	var saved []*ledger.State
	s := snapshots.NewSchedule(snapshots.ScheduleOptions{Records: 2, Save: func(state *ledger.State) {
		<-release
		mu.Lock()
		defer mu.Unlock()
		saved = append(saved, state)
	}})
	states := []*ledger.State{ledger.NewState(), ledger.NewState()}
	due := func(want bool) {
		t.Helper()
		if got := s.Due(ledger.NewState()); got != want {
			t.Fatalf("due %v", got)
		}
	}
	s.Folded(of(2))
	due(true)
	s.Forget()
	due(false) // its commits were not appended
	s.Folded(of(2))
	due(true)
	s.Save(states[0])
	s.Folded(of(5))
	due(false)
	close(release)
	s.Wait()
	due(true)
	s.Save(states[1])
	s.Wait()
	if !slices.Equal(saved, states) {
		t.Errorf("saved %v", saved)
	}
}
