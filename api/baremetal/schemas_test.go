package baremetal

import (
	"testing"

	"github.com/allot-project/allot/api/schema"
)

// TestSchemas: each schema can be compiled, which its first use does.
func TestSchemas(t *testing.T) {
	for i, s := range []schema.Schema{
		allocationSchema, nodeSchema, chassisSchema, patchSchema, traitsSchema, maintenanceSchema, targetSchema,
	} {
		if s.Check(0) == "" {
			t.Errorf("schema %d takes a number", i)
		}
	}
	for _, values := range []map[string]schema.Schema{allocationValues, nodeValues, chassisValues} {
		for _, s := range values {
			_ = s.Check(0) // some take a number
		}
	}
}
