package ledger

import (
	"fmt"

	"github.com/allot-project/allot/ledger/ordered"
)

// WaitingClaim is a claim for which nothing was found, and that is tried again
// until its time is over. What the document means is the business of claims.
type WaitingClaim struct {
	UUID     UUID   // the id of the command
	Sequence uint64 // of the commit since which it waits
	Since    int64  // Unix nanoseconds
	Until    int64  // Unix nanoseconds
	Project  string // of all of its consumers
	User     string // of the first of them
	Priority int64
	// Bound is the project that its client was bound to; empty: none.
	Bound string
	// Asked is the claim, as the client sent it.
	Asked Document
}

// waitingTable are the claims that wait, how many of each project do, and how much
// they take together.
type waitingTable struct {
	waiting      ordered.Tree[*WaitingClaim]
	waitingOf    ordered.Tree[projectCount]
	waitingBytes int
}

type projectCount struct {
	project string
	count   int
}

func newWaitingTable() waitingTable {
	return waitingTable{
		waiting:   ordered.New(func(a, b *WaitingClaim) bool { return a.UUID.Before(b.UUID) }),
		waitingOf: ordered.New(func(a, b projectCount) bool { return a.project < b.project }),
	}
}

func (t *waitingTable) forkWaiting() waitingTable {
	return waitingTable{
		waiting: ordered.Copy(t.waiting), waitingOf: ordered.Copy(t.waitingOf), waitingBytes: t.waitingBytes,
	}
}

// WaitingClaim finds a claim that waits.
func (s *State) WaitingClaim(id UUID) (*WaitingClaim, bool) {
	return s.waiting.Get(&WaitingClaim{UUID: id})
}

// WaitingClaims calls yield for each claim that waits, in UUID order, until it
// returns false.
func (s *State) WaitingClaims(yield func(*WaitingClaim) bool) { s.waiting.Scan(yield) }

// WaitingCount returns how many claims wait, and how many bytes they take.
func (s *State) WaitingCount() (claims, bytes int) { return s.waiting.Len(), s.waitingBytes }

// WaitingCountOf returns how many claims of a project wait.
func (s *State) WaitingCountOf(project string) int {
	found, _ := s.waitingOf.Get(projectCount{project: project})
	return found.count
}

// setWaiting sets a waiting claim, or with nil removes it.
func (s *State) setWaiting(before, after *WaitingClaim) {
	s.changes.Waiting = append(s.changes.Waiting, WaitingClaimChange{Before: before, After: after})
	s.indexWaiting(before, after)
}

func (s *State) indexWaiting(before, after *WaitingClaim) {
	if before != nil {
		s.waiting.Delete(before)
		s.countWaiting(before, -1)
	}
	if after != nil {
		s.waiting.Set(after)
		s.countWaiting(after, 1)
	}
}

func (s *State) countWaiting(w *WaitingClaim, sign int) {
	s.waitingBytes += sign * len(w.Asked)
	count := projectCount{w.Project, s.WaitingCountOf(w.Project) + sign}
	if count.count == 0 {
		s.waitingOf.Delete(count)
		return
	}
	s.waitingOf.Set(count)
}

// undoWaiting puts waiting claims back as they were.
func (s *State) undoWaiting(changes Changes) {
	for i := len(changes.Waiting) - 1; i >= 0; i-- {
		s.indexWaiting(changes.Waiting[i].After, changes.Waiting[i].Before)
	}
}

func (w *WaitingClaim) form(c *coder) {
	c.fields("waiting claim", 9).uuid(&w.UUID).uint(&w.Sequence).int(&w.Since).int(&w.Until)
	c.text(&w.Project).text(&w.User).int(&w.Priority).text(&w.Bound).document(&w.Asked)
}

// readWaiting reads what Encode wrote of waiting claims.
func (s *State) readWaiting(d *decoder, version uint64) error {
	err := readEach(d, (*WaitingClaim).form, func(w *WaitingClaim) error {
		if _, exists := s.WaitingClaim(w.UUID); exists || w.UUID.IsNil() {
			return fmt.Errorf("claim %s waits twice", w.UUID)
		}
		s.indexWaiting(nil, w)
		return nil
	})
	if err == nil && d.err == nil && version == waitingVersion && s.waiting.Len() == 0 {
		return fmt.Errorf("%w: a State of version %d without waiting claims", ErrCorrupt, waitingVersion)
	}
	return err
}
