package writer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// states are snapshots in memory: the States after some commits.
type states struct {
	after            []*ledger.State
	headsErr, loader error
}

func (s *states) Heads() (heads []ledger.Head, err error) {
	for _, state := range s.after {
		heads = append(heads, state.Head())
	}
	return heads, s.headsErr
}

func (s *states) Load(atOrBefore uint64) (*ledger.State, bool, error) {
	for _, state := range slices.Backward(s.after) {
		if state.Head().Sequence <= atOrBefore {
			return state.Fork(), true, s.loader
		}
	}
	return nil, false, s.loader
}

// past is a log of some commits, with the read models and snapshots that were made of it.
type past struct {
	commits []*ledger.Commit
	log     *memlog.Log
	models  *models
	snaps   *states
}

// newPast makes a log of n commits. The read models have folded some of them, and snapshots were taken after some.
func newPast(t *testing.T, n, folded int, snapshots ...int) *past {
	t.Helper()
	p := &past{
		commits: ledgertest.Commits(t, n), log: &memlog.Log{}, models: openModels(t), snaps: &states{},
	}
	ledgertest.AppendCommits(t, p.log, p.commits)
	state := ledger.NewState()
	for i, c := range p.commits {
		changes, err := state.Fold(c)
		if err == nil && i < folded {
			err = p.models.Fold(c, changes)
		}
		ledgertest.OK(t, err)
		if slices.Contains(snapshots, i+1) {
			p.snaps.after = append(p.snaps.after, state.Fork())
		}
	}
	return p
}

// TestRestore: the State is that of the whole log, and the read models have all of it, whatever was folded and saved
// before. No more of the log is read than necessary, and the next commit comes after the foreign entries at its end.
func TestRestore(t *testing.T) {
	t.Parallel()
	const n = 9
	want := commandstest.Must(ledgertest.State(t, n).Digest())
	for name, c := range map[string]struct {
		folded    int
		snapshots []int
		from      uint64 // the first commit that is replayed
		foreign   int    // entries at the log's end
	}{
		"from nothing":                          {0, nil, 1, 0},
		"read models without a snapshot":        {5, nil, 1, 0},
		"a snapshot at the read models":         {5, []int{2, 5}, 6, 0},
		"a snapshot behind the read models":     {5, []int{2}, 3, 0},
		"snapshots ahead of the read models":    {5, []int{2, 7, 9}, 3, 0},
		"a snapshot, and read models were lost": {0, []int{5}, 1, 0},
		"everything at the end":                 {9, []int{9}, 10, 0},
		"foreign entries at the end":            {5, nil, 1, 2},
	} {
		p := newPast(t, n, c.folded, c.snapshots...)
		for range c.foreign {
			p.log.Edit(func(entries [][]byte) [][]byte { return append(entries, []byte("hello")) })
		}
		var progress []string
		state, err := writer.Restore(t.Context(), p.log, p.snaps, p.models, nil, func(done, total uint64) {
			progress = append(progress, fmt.Sprint(done, "/", total))
		}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		digest, err := state.Digest()
		if err != nil || digest != want || p.models.Checkpoint() != state.Head() || state.Next() != n+1+uint64(c.foreign) {
			t.Errorf("%s: the State has digest %s, %v, read models are at %v", name, digest, err, p.models.Checkpoint())
		}
		var told []string
		for done := range n + 1 - c.from {
			told = append(told, fmt.Sprint(done+1, "/", n+1-c.from+uint64(c.foreign)))
		}
		if !slices.Equal(progress, told) {
			t.Errorf("%s: the progress is %v, not %v", name, progress, told)
		}
	}
}

// TestRestoreRefuses a log that differs from what was seen of it, by any witness, and
// says what to do; nothing is written. A passing error is no reason to refuse a log.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	forged := ledger.Head{Sequence: 3, Digest: ledger.Digest{1}}
	silent := func(err error) func(*past) {
		return func(p *past) { p.log.Away = func(context.Context, uint64) error { return err } }
	}
	cut := func(p *past) { p.log.Edit(func(entries [][]byte) [][]byte { return entries[:3] }) }
	for name, c := range map[string]struct {
		folded    int
		snapshots []int
		seen      []ledger.Head
		change    func(*past)
		why       error
		refused   bool
	}{
		"cut, and the read models have seen more":  {5, nil, nil, cut, ledger.ErrLogBehind, true},
		"cut, and a snapshot has seen more":        {0, []int{4}, nil, cut, ledger.ErrLogBehind, true},
		"cut, and a checkpoint has seen more":      {0, nil, []ledger.Head{{Sequence: 4}}, cut, ledger.ErrLogBehind, true},
		"another commit than the read models have": {5, nil, nil, swap(5), ledger.ErrChain, true},
		"another commit than the snapshot's":       {0, []int{5}, nil, swap(5), ledger.ErrChain, true},
		"another commit than a checkpoint's":       {0, nil, []ledger.Head{forged}, func(*past) {}, ledger.ErrChain, true},
		"a commit without a witness is damaged":    {0, nil, nil, swap(3), ledger.ErrChain, true},

		"a gap":                      {0, nil, nil, silent(ledger.ErrLogGap), ledger.ErrLogGap, true},
		"out of reach":               {0, nil, nil, silent(ledger.ErrUnavailable), ledger.ErrUnavailable, false},
		"snapshots cannot be listed": {0, nil, nil, func(p *past) { p.snaps.headsErr = errInjected }, errInjected, false},
		"snapshots cannot be read":   {0, nil, nil, func(p *past) { p.snaps.loader = errInjected }, errInjected, false},
		"read models cannot be written": {3, nil, nil, func(p *past) {
			p.models.fold = func() (error, error) { return errInjected, nil }
		}, errInjected, false},
	} {
		p := newPast(t, 6, c.folded, c.snapshots...)
		c.change(p)
		before := p.models.Checkpoint()
		state, err := writer.Restore(t.Context(), p.log, p.snaps, p.models, c.seen, nil, nil)
		if state != nil || !errors.Is(err, c.why) || errors.Is(err, writer.ErrRefused) != c.refused {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.refused && (!strings.Contains(err.Error(), "To recover, put back the log") ||
			!strings.Contains(err.Error(), "nothing was changed")) {
			t.Errorf("%s: it does not say what to do: %v", name, err)
		}
		if after := p.models.Checkpoint(); c.snapshots == nil && c.seen == nil && c.folded > 0 && after != before {
			t.Errorf("%s: the read models went from %v to %v", name, before, after)
		}
	}
}

// swap puts the first commit in another one's place.
func swap(sequence int) func(*past) {
	return func(p *past) {
		p.log.Edit(func(entries [][]byte) [][]byte {
			entries = slices.Clone(entries)
			entries[sequence-1] = entries[0]
			return entries
		})
	}
}

// TestStateAt: the State that a record was decided against is the one after all
// records before it, from whichever snapshot it is made.
func TestStateAt(t *testing.T) {
	t.Parallel()
	p := newPast(t, 6, 0, 3, 5)
	two := *p.commits[5] // a commit with two records
	second := ledger.Record{Time: two.Records[0].Time, Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_SECOND"}}}
	two.Records = []ledger.Record{two.Records[0], second}
	encoded := ledgertest.Encoded(t, &two)
	p.log.Edit(func(entries [][]byte) [][]byte { return append(slices.Clone(entries[:5]), encoded) })
	// A consumer is made by each of the commits from the third on.
	for _, c := range []struct {
		at     ledger.Address
		upTo   byte // consumers that are there, from the second on
		second bool
	}{
		{ledger.Address{Sequence: 1}, 1, false}, {ledger.Address{Sequence: 3}, 1, false},
		{ledger.Address{Sequence: 4}, 2, false}, {ledger.Address{Sequence: 6}, 4, false},
		{ledger.Address{Sequence: 6, Index: 1}, 5, false}, {ledger.Address{Sequence: 6, Index: 2}, 5, true},
		{ledger.Address{Sequence: 6, Index: 9}, 5, true}, // where its next record would be
		{ledger.Address{Sequence: 7}, 5, true},
	} {
		s, err := writer.StateAt(t.Context(), p.log, p.snaps, c.at)
		if err != nil {
			t.Errorf("at %s: %v", c.at, err)
			continue
		}
		upTo := byte(1)
		for n := byte(2); n < 8; n++ {
			if _, exists := s.Consumer(ledgertest.ID(2, n)); exists {
				upTo = n
			}
		}
		if second := s.HasTrait("CUSTOM_SECOND"); upTo != c.upTo || s.ConsumerCount() != int(upTo)-1 || second != c.second {
			t.Errorf("at %s there are consumers up to %d, and the second record was applied: %v", c.at, upTo, second)
		}
	}
	for at, why := range map[ledger.Address]string{
		{}: "no sequence 0", {Sequence: 9}: "behind", {Sequence: 7, Index: 1}: "behind",
	} {
		if _, err := writer.StateAt(t.Context(), p.log, p.snaps, at); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("at %s: %v; want an error with %q", at, err, why)
		}
	}
	p.snaps.loader = errInjected
	if _, err := writer.StateAt(t.Context(), p.log, p.snaps, ledger.Address{Sequence: 6}); !errors.Is(err, errInjected) {
		t.Error(err)
	}
}
