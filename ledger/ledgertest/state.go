// Package ledgertest makes commits and States for tests.
package ledgertest

import (
	"testing"

	"github.com/allot-project/allot/ledger"
)

// Commits returns a log of n commits: the vocabulary, then consumers that come,
// and one that goes.
func Commits(t testing.TB, n int) []*ledger.Commit {
	t.Helper()
	events := [][]ledger.Event{Vocabulary(), {ledger.ConsumerRemoved{Consumer: ID(2, 1)}}}
	for i := len(events); i < n; i++ {
		events = append(events, []ledger.Event{ledger.AllocationsReplaced{
			Consumer: ID(2, byte(i)), Project: "p", User: "u",
			Allocations: []ledger.AllocationRecord{{Provider: ID(1, 1), Class: "VCPU", Amount: 1}},
		}})
	}
	return chain(t, events[:n])
}

// Fold returns the State after some commits.
func Fold(t testing.TB, commits []*ledger.Commit) *ledger.State {
	t.Helper()
	s := ledger.NewState()
	for _, c := range commits {
		_, err := s.Fold(c)
		OK(t, err)
	}
	return s
}

// State folds Commits.
func State(t testing.TB, n int) *ledger.State {
	t.Helper()
	return Fold(t, Commits(t, n))
}
