package ledgertest

// Cases is how many cases of its own a test of one goroutine plays: all, or under the race
// detector, which finds no wrong answers, fewer.
func Cases(all, raced int) int {
	if Raced {
		return raced
	}
	return all
}
