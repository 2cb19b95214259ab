package leading

import "context"

// FollowAnew has a replica follow anew, and returns when it has read the log.
func (r *Replica) FollowAnew(ctx context.Context) error {
	r.follow(r.follower.Load().stop())
	_, err := r.Fork(ctx)
	return err
}
