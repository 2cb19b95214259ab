package main_test

import (
	"os"
	"testing"
)

// times is how often a fault is injected: a few times with the other tests, and
// as often as docs/reliability.md says with "make faults".
func times(few, many int) int {
	switch {
	case os.Getenv("ALLOT_FAULTS") != "":
		return many
	case testing.Short():
		return max(1, few/4)
	}
	return few
}

// tell prints a row of the table in docs/reliability.md.
func tell(t *testing.T, fault string, injected int, outcome string) {
	t.Helper()
	t.Logf("FAULT | %s | %d | %s |", fault, injected, outcome)
}
