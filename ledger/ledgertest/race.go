//go:build race

package ledgertest

// Raced is whether the race detector watches this program. Under it Pebble checks all
// that it does besides, and keeps a stack of calls for each iterator, so that what reads
// much of it takes ten times as long: tests of one goroutine play a part of their cases
// then, and all of them without.
const Raced = true
