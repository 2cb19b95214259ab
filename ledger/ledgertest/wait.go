package ledgertest

import (
	"fmt"
	"testing"
	"time"
)

// Hang is the time after which something counts as never coming. It does not measure
// speed.
const Hang = 5 * time.Minute

// longestRest is between two looks at what is waited for, at most.
const longestRest = 100 * time.Millisecond

// WaitFor waits for something that must come sooner or later. If it does not, the test
// ends, and says what did not come and what was seen instead.
func WaitFor(t testing.TB, what string, so func() bool, seen ...func() any) {
	t.Helper()
	if Comes(Hang, so) {
		return
	}
	for _, instead := range seen {
		what += fmt.Sprintf("\ninstead: %+v", instead())
	}
	t.Fatalf("waited %v for %s", Hang, what)
}

// Comes reports whether something comes within a time. Between two looks it rests for
// longer than a look takes, which leaves the machine to what is waited for.
func Comes(within time.Duration, so func() bool) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(within); ; {
		began := time.Now()
		switch {
		case so():
			return true
		case time.Now().After(deadline):
			return false
		}
		ticker.Reset(min(max(time.Millisecond, 4*time.Since(began)), longestRest))
		<-ticker.C
	}
}
