//go:build !allot_control

package jetstream

// What follows are constants, and functions that do nothing: only the programs
// that tests build with allot_control can be told otherwise.

// unfenced appends wherever the log ends.
const unfenced = false

// withheld reports whether the log keeps silent about what is appended.
func withheld() bool { return false }

// probe looks, again and again, whether the stream has a leader.
func probe(*Log) {}
