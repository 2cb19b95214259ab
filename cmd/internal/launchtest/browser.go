package launchtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// NeedBrowser skips a test if there is no browser, or what drives it is not in a folder.
func NeedBrowser(t *testing.T, folder string) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/chromium"); err != nil {
		t.Skip("skipped: chromium is not installed")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("skipped: node is not installed")
	}
	for _, module := range []string{"playwright-core", "axe-core"} {
		if _, err := os.Stat(folder + "/node_modules/" + module); err != nil {
			t.Skipf("skipped: %s is not installed (npm ci in cmd/allot/testdata/console)", module)
		}
	}
}

// Browse runs a script of a folder.
func Browse(t *testing.T, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", append([]string{script}, args...)...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(script, err)
	}
}
