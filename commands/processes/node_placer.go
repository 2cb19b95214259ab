package processes

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// NodePlacerActor is the actor in the NodePlacer's records.
const NodePlacerActor = "allot:allocator"

const (
	// placingAtATime is how many node allocations are being decided at a time.
	placingAtATime = 512
	// retryPause is the pause before unanswered commands are tried again.
	retryPause = 100 * time.Millisecond
)

// WaitingList is what the NodePlacer reads. projector.Projector implements it.
type WaitingList interface {
	Changed() <-chan struct{}
	WaitingNodeAllocations(after uint64, limit int) ([]*ledger.NodeAllocation, error)
	RequestOf(*ledger.NodeAllocation) (ledger.Address, bool, error)
}

// NodePlacer gives nodes to waiting node allocations: it submits a command for
// each, and the writer decides.
type NodePlacer struct {
	views WaitingList
	process
	slots chan struct{}
	work  sync.WaitGroup
	again chan struct{} // some command was not answered
}

// StartNodePlacer starts with the allocations that wait already.
func StartNodePlacer(submit commands.Submitter, views WaitingList, logger *slog.Logger) *NodePlacer {
	a := &NodePlacer{
		views: views, process: process{submit: submit, logger: logger},
		slots: make(chan struct{}, placingAtATime), again: make(chan struct{}, 1),
	}
	a.begin(a.run)
	return a
}

// run handles each waiting allocation once, in the order of the requests. If some
// commands were not answered it begins again.
func (a *NodePlacer) run(ctx context.Context) {
	defer a.work.Wait()
	last := uint64(0) // number of the last allocation handled
	for ctx.Err() == nil {
		changed := a.views.Changed()
		waiting, err := a.views.WaitingNodeAllocations(last, placingAtATime)
		if err != nil {
			a.logger.Error("waiting node allocations cannot be read", "error", err)
			a.tryAgain()
		}
		for _, one := range waiting {
			select {
			case a.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			last = one.Number
			a.work.Go(func() {
				defer func() { <-a.slots }()
				a.choose(ctx, one)
			})
		}
		if len(waiting) == placingAtATime {
			continue // there are more
		}
		select {
		case <-changed:
		case <-a.again:
			await(ctx, nil, retryPause)
			a.work.Wait()
			last = 0
		case <-ctx.Done():
			return
		}
	}
}

// choose submits the command that decides one allocation.
func (a *NodePlacer) choose(ctx context.Context, one *ledger.NodeAllocation) {
	submission := commands.Submission{
		ID: commands.NewID(), Actor: NodePlacerActor,
		Command: &commands.ChooseNode{Allocation: one.UUID, Seed: rand.Uint64() | 1},
	}
	const trouble = "node allocations are not decided"
	cause, known, err := a.views.RequestOf(one)
	if known {
		submission.Cause = &cause
	}
	done := false
	if err != nil {
		a.warn(ctx, trouble, "allocation", one.UUID, "error", err)
	} else {
		_, done = a.carry(ctx, submission, trouble, "allocation", one.UUID)
	}
	if !done {
		a.tryAgain()
	}
}

func (a *NodePlacer) tryAgain() {
	select {
	case a.again <- struct{}{}:
	default:
	}
}
