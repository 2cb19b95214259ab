package cli

import (
	"testing"

	"golang.org/x/mod/semver"
)

// TestModuleVersion: whatever the go command recorded, the version is a semantic one
// without Go's v, as NATS wants a service's.
func TestModuleVersion(t *testing.T) {
	t.Parallel()
	for recorded, want := range map[string]string{
		"(devel)": devVersion,
		"":        devVersion,
		"v1.2.3":  "1.2.3",
		"v0.0.0-20261126082439-7c2a7e17e91e+dirty": "0.0.0-20261126082439-7c2a7e17e91e+dirty",
	} {
		if got := moduleVersion(recorded); got != want || !semver.IsValid("v"+got) {
			t.Errorf("%q becomes %q, not %q", recorded, got, want)
		}
	}
}
