package leading

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/allot-project/allot/commands/members"
)

// own is what this replica says of itself, besides what its group says of every member.
func (r *Replica) own() members.Member {
	m := members.Member{
		Role: members.RoleFollower, HTTP: r.cfg.HTTP, Copies: r.cfg.Copies, Version: r.cfg.Version,
		Sequence: r.cfg.Models.Checkpoint().Sequence, Lazy: r.cfg.Lazy,
	}
	if r.leading.Load() != nil {
		m.Role = members.RoleLeader
	}
	if err := r.notEligible(); err != nil {
		m.Unfit = err.Error()
	}
	m.Whole = r.cfg.Whole == nil || r.cfg.Whole()
	var since time.Duration
	m.LagCommits, since = r.Lag()
	m.LagSeconds = since.Seconds()
	return m
}

// Lag returns how many announced commits this replica has not folded, and since
// when it lacks some.
func (r *Replica) Lag() (commits uint64, since time.Duration) {
	newest := r.view.sequence.Load()
	commits = newest - min(newest, r.cfg.Models.Checkpoint().Sequence)
	if commits == 0 {
		r.lacks.Store(0)
		return 0, 0
	}
	now := int64(r.clock())
	r.lacks.CompareAndSwap(0, now)
	return commits, time.Duration(now - r.lacks.Load())
}

// Role returns this replica's present role.
func (r *Replica) Role() string { return r.own().Role }

// streamsWait is how long the log's stream may take to say who keeps it.
const streamsWait = 2 * time.Second

// Status asks all replicas for their status.
func (r *Replica) Status(ctx context.Context) members.Status {
	s := r.group.Status(ctx)
	if state, err := r.Fork(ctx); err == nil {
		s.Term, s.Level = state.Term().Number, state.Term().Level
	}
	// A stream without a leader says nothing.
	ctx, cancel := context.WithTimeout(ctx, streamsWait)
	defer cancel()
	var err error
	if s.Stream, err = r.cfg.Log.Peers(ctx); err != nil {
		s.Problem = cmp.Or(s.Problem, err.Error())
	}
	return s
}

// Standing returns this replica's role, the term, and the leader.
func (r *Replica) Standing() (role string, term uint64, leader string) {
	role, term = members.RoleFollower, r.view.term.Load()
	if r.leading.Load() != nil {
		return members.RoleLeader, term, r.cfg.Name
	}
	if r.Led() == nil {
		last, _ := r.view.get()
		leader = last.Name
	}
	return role, term, leader
}

// Led returns nil if some replica leads, as far as is known.
func (r *Replica) Led() error {
	if r.leading.Load() != nil {
		return nil
	}
	last, _ := r.view.get()
	if last.Released || r.clock()-time.Duration(r.view.heard.Load()) > r.cfg.Lease/2 {
		return errNoLeader
	}
	return nil
}

// Waits returns nil if a request that arrives now is worth taking although perhaps no
// replica leads: a leader was heard no longer ago than requests wait, so that they
// probably meet a change of leaders, and the next one answers them.
func (r *Replica) Waits() error {
	if heard := r.view.heard.Load(); heard == 0 || r.clock()-time.Duration(heard) > r.cfg.Limit {
		return fmt.Errorf("%w, and none was heard for %v", errNoLeader, r.cfg.Limit)
	}
	return nil
}
