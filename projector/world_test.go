package projector

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/allot-project/allot/projector/candidates"
)

// TestPastWorlds: an error is not kept, Worlds are built one at a time and each
// once, and few are kept.
func TestPastWorlds(t *testing.T) {
	t.Parallel()
	c := pastWorlds{building: make(chan struct{}, 1)}
	passing := errors.New("it passes")
	fails := func() (*candidates.World, error) { return nil, passing }
	if _, err := c.world(t.Context(), 1, fails); !errors.Is(err, passing) {
		t.Fatal(err)
	}
	var building, built atomic.Int64
	build := func() (*candidates.World, error) {
		if building.Add(1) > 1 {
			t.Error("two are built at once")
		}
		defer building.Add(-1)
		built.Add(1)
		return candidates.NewWorld(nil), nil
	}
	if world, err := c.world(t.Context(), 1, build); err != nil || world == nil {
		t.Fatalf("after an error that passed: %v", err)
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if _, err := c.world(t.Context(), uint64(i%keptWorlds)+1, build); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := built.Load(); n != keptWorlds {
		t.Errorf("%d were built, not %d", n, keptWorlds)
	}
	if _, err := c.world(t.Context(), 99, build); err != nil || len(c.kept) != keptWorlds {
		t.Errorf("%d are kept, %v", len(c.kept), err)
	}
}
