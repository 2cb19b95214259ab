package processes

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// maxNoted is how many changes of waiting claims are noted for a ClaimGranter. If it
// is further behind, it reads them.
const maxNoted = 2 * commands.MaxWaitingClaims

// Freed tells a ClaimGranter when to look: its method Folded sees each commit once
// that can be read. Without waiting claims this costs next to nothing.
type Freed struct {
	wake    chan struct{}
	watched atomic.Bool // claims wait

	mu     sync.Mutex
	freed  freed                       // while they do, since it was taken; guarded by mu
	noted  []ledger.WaitingClaimChange // since they were taken; guarded by mu
	missed bool                        // not all were noted; guarded by mu
}

// NewFreed returns one that has seen nothing.
func NewFreed() *Freed { return &Freed{wake: make(chan struct{}, 1), missed: true} }

// Folded sees a commit's changes, once they can be read.
func (f *Freed) Folded(changes *ledger.Changes) {
	var now freed
	if f.watched.Load() {
		now.add(changes)
	}
	if now.none() && len(changes.Waiting) == 0 {
		return
	}
	f.mu.Lock()
	f.freed.join(&now)
	f.note(changes.Waiting)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// note keeps which claims wait, and wait no more, until somebody takes that.
func (f *Freed) note(changes []ledger.WaitingClaimChange) {
	if f.missed {
		return
	}
	if f.noted = append(f.noted, changes...); len(f.noted) > maxNoted {
		f.noted, f.missed = nil, true
	}
}

// take returns what was freed and noted since it was taken last. If something was
// missed, a view that is taken afterwards has it.
func (f *Freed) take() (now freed, noted []ledger.WaitingClaimChange, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, noted, missed = f.freed, f.noted, f.missed
	f.freed, f.noted, f.missed = freed{}, nil, false
	return now, noted, missed
}

// pending reports whether something was freed since it was taken last.
func (f *Freed) pending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.freed.none()
}

// freed is what may make something possible that was not before.
type freed struct {
	all       bool                    // it may be anything
	consumers bool                    // some hold something else than before
	classes   map[ledger.ClassID]bool // of which less is used somewhere
}

func (f *freed) none() bool { return !f.all && !f.consumers && len(f.classes) == 0 }

// add finds what is freed by changes: by all but new consumers, and what they use.
func (f *freed) add(c *ledger.Changes) {
	f.all = f.all ||
		len(c.Limits)+len(c.Parents)+len(c.Preferences)+len(c.Traits)+len(c.Classes)+len(c.Nodes) > 0 ||
		slices.ContainsFunc(c.AggregateLimits, func(one ledger.AggregateLimitChange) bool {
			return one.Before == nil || one.After == nil || one.Before.Most != one.After.Most
		}) ||
		slices.ContainsFunc(c.Providers, func(one ledger.ProviderChange) bool {
			return one.Before == nil || one.After != nil && !onlyUsed(one.Before, one.After)
		})
	f.consumers = f.consumers ||
		slices.ContainsFunc(c.Consumers, func(one ledger.ConsumerChange) bool { return one.Before != nil })
	for _, one := range c.Providers {
		if f.all || one.After == nil {
			continue
		}
		for i := range one.After.Inventories {
			if one.After.Inventories[i].Used < one.Before.Inventories[i].Used {
				f.classFreed(one.After.Inventories[i].Class)
			}
		}
	}
}

func (f *freed) classFreed(class ledger.ClassID) {
	if f.classes == nil {
		f.classes = make(map[ledger.ClassID]bool)
	}
	f.classes[class] = true
}

func (f *freed) join(other *freed) {
	f.all, f.consumers = f.all || other.all, f.consumers || other.consumers
	for class := range other.classes {
		f.classFreed(class)
	}
}

// onlyUsed reports whether no more has changed of a provider than what is used of it.
func onlyUsed(before, after *ledger.Provider) bool {
	if before.Parent != after.Parent || before.Root != after.Root || len(before.Inventories) != len(after.Inventories) ||
		!slices.Equal(before.Traits, after.Traits) || !slices.Equal(before.Aggregates, after.Aggregates) {
		return false
	}
	for i := range after.Inventories {
		was, is := before.Inventories[i], after.Inventories[i]
		if was.Used, was.UpdatedAt = is.Used, is.UpdatedAt; was != is {
			return false
		}
	}
	return true
}
