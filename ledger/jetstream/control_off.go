//go:build !allot_control

package jetstream

// This is a constant, and a function that does nothing. Only the programs that
// tests build with allot_control can change them.

// unfenced appends wherever the log ends.
const unfenced = false

// withheld reports whether the log keeps silent about appends.
func withheld() bool { return false }
