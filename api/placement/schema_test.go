package placement

import "testing"

// TestSchemas: each schema can be compiled, which its first use does.
func TestSchemas(t *testing.T) {
	for name, s := range schemas() {
		if s.Check(0) == "" {
			t.Errorf("%v takes a number", name)
		}
	}
}
