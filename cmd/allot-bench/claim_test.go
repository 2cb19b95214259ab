package main

import (
	"testing"
	"time"
)

// TestBenchClaim runs the whole measurement on a small ledger. A thousand clients race over
// NATS for the last hundred places: exactly a hundred win, by claims and in the old way.
func TestBenchClaim(t *testing.T) {
	t.Parallel()
	c := &benchClaimCommand{
		serverFlags: ownServer(),
		Providers:   300, Claims: 1000, Dir: t.TempDir(), Connected: 4, Pipelined: 64, Prefer: "spread", Rate: 5000,
		OldWay: 50, OldAtOnce: 8, Beside: 300 * time.Millisecond, Racers: 1000,
	}
	result, err := c.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.ClaimsPerSecond <= 0 || result.Steady.ClaimsPerSecond <= 0 || result.Rejected != 0 {
		t.Errorf("claims: %+v", result)
	}
	race := result.Race
	if race.Places != 100 || race.Claims.Won != 100 || race.OldWay.Won != 100 {
		t.Errorf("a thousand clients for the last hundred places: %+v", race)
	}
	t.Logf("race: claims %+v, old way %+v", race.Claims, race.OldWay)
	for _, one := range result.Allocations {
		if one.PerSecond <= 0 || (one.Beside > 0) != (one.Load != "alone") {
			t.Errorf("allocations: %+v", one)
		}
	}
	if len(result.Allocations) != 4 {
		t.Errorf("%d loads", len(result.Allocations))
	}
	if err := c.print(result); err != nil {
		t.Error(err)
	}
}

// TestBenchClaimOfFullProviders runs it where most claims find nothing: that is counted, in
// both ways.
func TestBenchClaimOfFullProviders(t *testing.T) {
	t.Parallel()
	c := &benchClaimCommand{
		serverFlags: ownServer(),
		Providers:   10, Claims: 1000, Dir: t.TempDir(), Connected: 2, Pipelined: 16, Prefer: "pack", Rate: 5000,
		OldWay: 20, OldAtOnce: 2,
	}
	result, err := c.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(10 * 64); result.Rejected < 1000-most || result.OldWay.Rejected == 0 {
		t.Errorf("of providers with %d VCPU in all: claims %+v", most, result)
	}
}
