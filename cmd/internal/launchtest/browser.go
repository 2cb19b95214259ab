package launchtest

import (
	"os"
	"os/exec"
	"testing"
)

// NeedBrowser skips a test if there is no browser, or what drives it is not in a folder.
func NeedBrowser(t *testing.T, folder string) {
	t.Helper()
	_, shell := os.Stat("/usr/bin/chromium-headless-shell") // it is chromium without windows
	if _, err := os.Stat("/usr/bin/chromium"); err != nil && shell != nil {
		t.Skip("skipped: neither chromium-headless-shell nor chromium is installed")
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

// Browse runs a script of a folder, each of whose steps ends by itself.
func Browse(t *testing.T, script string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(script, err)
	}
}
