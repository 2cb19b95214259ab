//go:build !allot_control

package jetstream

// These are constants, and functions that do nothing. Only the programs that
// tests build with allot_control can change them.

// unfenced appends wherever the log ends.
const unfenced = false

// withheld reports whether the log keeps silent about appends.
func withheld() bool { return false }

// probe looks, again and again, whether the stream has a leader.
func probe(*Log) {}
