package leading

// HoldsBack reports whether a follower has met a commit in the log that it may not show.
func (r *Replica) HoldsBack() bool {
	f := r.follower.Load()
	return f != nil && f.held.Load()
}
