package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/cmd/simulate/machine"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// program is the server, compiled for wasip1.
func program(t *testing.T) *machine.Program {
	t.Helper()
	if testing.Short() || ledgertest.Raced {
		t.Skip("skipped: compiling the server takes minutes, and many more with the race detector; make models plays seeds")
	}
	p, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSeeds(t *testing.T) {
	p := program(t)
	digests, accepted, roots := map[string]uint64{}, map[string]int{}, 0
	played, all := make([]*outcome, 6), new(errgroup.Group)
	all.SetLimit(2) // of 300 MB each
	for i, seed := range []uint64{1, 2, 4, 5, 8, 1} {
		all.Go(func() error { played[i] = play(p, seed, plan(seed), silent); return nil })
	}
	_ = all.Wait()
	for _, found := range played[:5] {
		t.Log(found)
		if len(found.wrong) > 0 {
			t.Errorf("seed %d fails: make simulate SEED=%d tells its story", found.seed, found.seed)
		}
		if other, there := digests[found.digest]; there {
			t.Errorf("seeds %d and %d gave the same digest", found.seed, other)
		}
		digests[found.digest] = found.seed
		roots += found.roots
		for _, c := range found.commands {
			if c.Accepted {
				accepted[c.Name]++
			}
		}
	}
	for _, name := range []string{
		"AllocateForConsumers", "Claim", "Reserve", "ConfirmReservation", "CancelReservation", "ReleaseConsumer",
		"SetLimit", "Reshape", "ReplaceProviderCounters", "SetTopology", "CreateNode", "RequestNodeAllocation", "ReleaseNodeAllocation", "Batch",
	} {
		if accepted[name] == 0 {
			t.Errorf("no %s was ever accepted", name)
		}
	}
	if roots == 0 {
		t.Error("no root of consumption was ever set")
	}
	if digests[played[5].digest] != 1 {
		t.Errorf("seed 1 gave another digest the second time: %s", played[5].digest)
	}
}

func TestPlanIsTheSeeds(t *testing.T) {
	text := func(seed uint64) (text string) {
		for _, f := range plan(seed) {
			text += f.String() + "\n"
		}
		return text
	}
	if first := text(1); first != text(1) || first == text(2) {
		t.Error("the same seed gave other faults, or another the same")
	}
}

// TestRevertsApply: the patches that take mends back fit the sources, so that the simulator can be
// tried with each (make simulate-reverts).
func TestRevertsApply(t *testing.T) {
	patches, err := filepath.Glob("reverts/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatal(patches, err)
	}
	for _, patch := range patches {
		check := exec.Command("git", "apply", "--check", "cmd/simulate/"+patch)
		check.Dir = "../.."
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", patch, err, out)
		}
	}
}
