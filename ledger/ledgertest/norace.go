//go:build !race

package ledgertest

// Raced is whether the race detector watches this program.
const Raced = false
