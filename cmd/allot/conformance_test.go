package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// conformanceFiles are the upstream gabbi files that must pass whole.
var conformanceFiles = []string{
	"aggregate.yaml", "allocation-bad-class.yaml", "allocation-candidates-any-traits.yaml",
	"allocation-candidates-mappings-sharing.yaml", "allocation-candidates-member-of.yaml",
	"allocation-candidates.yaml", "allocations-1.28.yaml", "allocations-1-12.yaml", "allocations-1-8.yaml",
	"allocations-post.yaml", "allocations.yaml", "confirm-auth.yaml", "ensure-consumer.yaml",
	"granular.yaml", "inventory.yaml", "microversion.yaml", "reshaper.yaml", "resource-class-in-use.yaml",
	"resource-classes.yaml", "resource-provider-any-traits.yaml", "resource-provider-links.yaml",
	"resource-provider.yaml", "traits.yaml", "usage.yaml",
	"aggregate-legacy-rbac.yaml", "allocation-candidates-legacy-rbac.yaml", "allocation-candidates-secure-rbac.yaml",
	"allocations-legacy-rbac.yaml", "inventory-legacy-rbac.yaml", "reshaper-legacy-rbac.yaml", "reshaper-secure-rbac.yaml",
	"resource-classes-legacy-rbac.yaml", "resource-classes-secure-rbac.yaml", "resource-provider-legacy-rbac.yaml",
	"resource-provider-secure-rbac.yaml", "traits-legacy-rbac.yaml", "usage-legacy-rbac.yaml",
}

// TestConformance runs Placement's own tests against the binary over HTTP.
// They are not part of the project: without them the test is skipped.
func TestConformance(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(root, "..", "shared", "conformance")
	if _, err := os.Stat(suite); err != nil {
		t.Skip("skipped: no conformance suite beside the project")
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import gabbi").Run(); err != nil {
		t.Skip("skipped: python3-gabbi is not installed")
	}
	args := []string{
		filepath.Join(suite, "gabbi_live.py"), "--dir", chosenFiles(t, filepath.Join(suite, "gabbits")), "--stream-generations",
		"--jobs", "4", "--profiles", "default,legacy-rbac,secure-rbac", "--workdir", t.TempDir(),
		"--server-cmd", filepath.Join(root, ".ci", "conformance-server") + " {port} {dir} {profile}",
	}
	run := exec.Command("/usr/bin/python3", args...)
	run.Env = append(os.Environ(), "ALLOT_BINARY="+binary, "PYTHONDONTWRITEBYTECODE=1")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}

// chosenFiles links the files that must pass into a folder of their own.
func chosenFiles(t *testing.T, gabbits string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range conformanceFiles {
		if err := os.Symlink(filepath.Join(gabbits, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
