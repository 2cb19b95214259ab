package leading

import (
	"context"
	"time"
)

// unfitLook is how often a leader looks whether it should give way. It does if it
// should not have led for two looks.
const unfitLook = 2 * time.Second

// notEligible returns why another replica should lead if one can.
func (r *Replica) notEligible() error {
	if r.cfg.Unfit == nil {
		return nil
	}
	return r.cfg.Unfit()
}

// watchFitness asks the term to end when another replica should lead and one can, such as
// when this one's disk is full. A leader that no replica can replace goes on: it answers
// reads.
func (t *Term) watchFitness() {
	tick := time.NewTicker(unfitLook)
	defer tick.Stop()
	before := false
	for {
		select {
		case <-tick.C:
		case <-t.lost:
			return
		}
		if t.r.leading.Load() != t {
			return
		}
		problem := t.r.notEligible()
		if problem != nil && before {
			t.resignFor(problem)
		}
		before = problem != nil
	}
}

// resignFor asks the term to end if another replica can lead.
func (t *Term) resignFor(problem error) {
	ctx, cancel := context.WithTimeout(t.r.ctx, t.length)
	defer cancel()
	successor := t.r.group.Successor(ctx)
	if successor == "" {
		return
	}
	select {
	case t.resign <- successor:
		t.r.cfg.Logger.Warn("this replica lets another one lead", "because", problem, "successor", successor)
	default: // it was asked to already
	}
}
