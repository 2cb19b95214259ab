package leading

import (
	"context"

	"github.com/allot-project/allot/commands"
)

// FollowAnew has a replica follow anew, and returns when it has read the log.
func (r *Replica) FollowAnew(ctx context.Context) error {
	r.follow(r.follower.Load().stop())
	_, err := r.Fork(ctx)
	return err
}

// StartTerm goes on as after taking a lease that was judged to be free as of a term.
func (r *Replica) StartTerm(judged uint64) {
	term := &Term{
		leaseHolder: newLeaseHolder(commands.NewID(), r.cfg.Lease, r.clock), r: r, resign: make(chan string, 1),
		stop: func() {},
	}
	r.startTerm(term, judged)
}
