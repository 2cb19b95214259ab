package shadow

import "testing"

// TestGate: no write is inside a gate that is shut, and a write that is keeps it from being quiet.
func TestGate(t *testing.T) {
	t.Parallel()
	g := newGate()
	if err := g.enter(t.Context()); err != nil || g.quiet() {
		t.Fatalf("%v, quiet: %v", err, g.quiet())
	}
	g.leave()
	if err := g.close(t.Context()); err != nil || !g.quiet() {
		t.Fatalf("%v, quiet: %v", err, g.quiet())
	}
	g.open()
	if !g.quiet() || g.passed.Load() != 1 {
		t.Errorf("quiet: %v, %d have passed", g.quiet(), g.passed.Load())
	}
}
