package main

import (
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// TestBenchClaim runs the whole measurement on a small ledger.
func TestBenchClaim(t *testing.T) {
	t.Parallel()
	c := &benchClaimCommand{
		serverFlags: ownServer(), Providers: 300, Claims: 300, Connected: 4, Pipelined: 64, Prefer: "spread", OldWay: 50,
	}
	result, err := c.run(t.Context(), t.TempDir())
	launchtest.Must(t, err)
	for name, taken := range map[string]*timings{"claims": result.claims, "half": result.half, "old way": result.old} {
		if taken.rate() <= 0 {
			t.Errorf("%s: %v a second", name, taken.rate())
		}
	}
	if result.rejected.Load() != 0 {
		t.Errorf("%d claims were rejected", result.rejected.Load())
	}
	if err := c.print(result); err != nil {
		t.Error(err)
	}
}
