package cli

import (
	"slices"
	"testing"
	"time"
)

// TestLines: a line comes every ten seconds, however often something moves.
func TestLines(t *testing.T) {
	t.Parallel()
	var told []string
	now := time.Unix(0, 0)
	show := Lines(func(line string) { told = append(told, line) }, func() time.Time { return now })
	for done := range uint64(25) {
		show(done, 30)
		now = now.Add(time.Second)
	}
	if want := []string{"10 of 30", "20 of 30"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
