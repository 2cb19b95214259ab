package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformance runs Placement's own tests against the binary over HTTP.
// They are not part of the project: without them the test is skipped.
func TestConformance(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	must(t, err)
	suite := filepath.Join(root, "..", "shared", "conformance")
	if _, err := os.Stat(suite); err != nil {
		t.Skip("skipped: no conformance suite beside the project")
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import gabbi").Run(); err != nil {
		t.Skip("skipped: python3-gabbi is not installed")
	}
	args := []string{
		filepath.Join(suite, "gabbi_live.py"), "--dir", filepath.Join(suite, "gabbits"), "--stream-generations",
		"--jobs", "4", "--profiles", "default,legacy-rbac,secure-rbac,open-policy,cors", "--workdir", t.TempDir(),
		"--server-cmd", filepath.Join(root, ".ci", "conformance-server") + " {port} {dir} {profile}",
	}
	run := exec.Command("/usr/bin/python3", args...)
	run.Env = append(os.Environ(), "ALLOT_BINARY="+binary, "PYTHONDONTWRITEBYTECODE=1")
	out := output(t, run)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	t.Log(lines[len(lines)-1])
}
