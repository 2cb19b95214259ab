package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestConsumptionDocument runs what docs/consumption.md says on the way from an empty ledger to a
// bill and its proof. The server's clock is a month behind at first.
func TestConsumptionDocument(t *testing.T) {
	t.Parallel()
	text := read(t, "../../docs/consumption.md")
	_, script, _ := strings.Cut(text, "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	keys, script, _ := strings.Cut(script, "allot serve --data ledger --signing-key key &\n")
	early, late, found := strings.Cut(script, "# a month later\n")
	if !found {
		t.Fatal("docs/consumption.md has no such commands")
	}
	dir := t.TempDir()
	run := func(address, script string) {
		t.Helper()
		printsWhatItSays(t, dir, "allot() { "+binary+` "$@"; }`+"\n"+script, "ALLOT_URL=http://"+address)
	}
	run("", keys)
	data, key := filepath.Join(dir, "ledger"), filepath.Join(dir, "key")
	flags := []string{"--signing-key", key, "--pace-commit-consumption"}
	s := launch(t, data, append(flags, "--pace-clock-behind", (31*24*time.Hour).String())...)
	run(s.HTTP, early)
	s.Terminate()

	s = launch(t, data, flags...)
	hour := "/audit/proof/consumption?project=web&to=" + time.Now().UTC().Format("2006-01-02T15:00:00Z")
	s.Eventually(hour) // the hours that were missed are over
	run(s.HTTP, early[strings.Index(early, "api="):strings.Index(early, "placement $api/resource_providers -d")]+late)
	bill, err := os.ReadFile(filepath.Join(dir, "bill.csv"))
	if err != nil || !slices.ContainsFunc(strings.Split(string(bill), "\n"), func(line string) bool {
		return strings.Contains(line, "VCPU-Hours") && strings.Contains(line, "EUR")
	}) {
		t.Errorf("the bill is\n%s%v", bill, err)
	}
}
