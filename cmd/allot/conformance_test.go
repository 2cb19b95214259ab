package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	// The suite chooses a server's port before it starts the server, so no other program may take one then: each share
	// of its files has one server at a time, and a network of its own where that can be made.
	alone := []string{"unshare", "--net", "--map-root-user", "sh", "-c", `ip link set lo up && exec "$@"`, "sh"}
	if err := exec.Command(alone[0], append(alone[1:], "true")...).Run(); err != nil {
		t.Logf("a port may be taken twice, for no network can be made: %v", err)
		alone = nil
	}
	var shares sync.WaitGroup
	for _, files := range []string{"al*", "a[!l]*", "[b-q]*", "[!a-q]*"} {
		shares.Go(func() {
			args := slices.Concat(alone, []string{
				"/usr/bin/python3", filepath.Join(suite, "gabbi_live.py"), "--dir", filepath.Join(suite, "gabbits"),
				"--stream-generations", "--profiles", "default,legacy-rbac,secure-rbac,open-policy,cors",
				"--only", files, "--workdir", t.TempDir(),
				"--server-cmd", filepath.Join(root, ".ci", "conformance-server") + " {port} {dir} {profile}",
			})
			run := exec.Command(args[0], args[1:]...)
			run.Env = append(os.Environ(), "ALLOT_BINARY="+binary, "PYTHONDONTWRITEBYTECODE=1")
			out, err := run.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			t.Logf("%s: %s", files, lines[len(lines)-1])
			if err != nil {
				t.Errorf("%s: %v\n%s", files, err, out)
			}
		})
	}
	shares.Wait()
}
