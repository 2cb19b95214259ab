package console

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWordsForEveryEvent: the page has words for every kind of event, and for no
// other. What events did to consumers it tells by what has changed.
func TestWordsForEveryEvent(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("../../ledger/testdata/events.golden")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("assets/js/words.js")
	if err != nil {
		t.Fatal(err)
	}
	told := []string{"AllocationsReplaced", "AllocationsReserved", "AllocationsClaimed", "ConsumerImported", "ConsumerRemoved"}
	for _, match := range regexp.MustCompile(`(?m)^  ([A-Z]\w+): \(`).FindAllSubmatch(script, -1) {
		told = append(told, string(match[1]))
	}
	var kinds []string
	for line := range strings.Lines(string(golden)) {
		_, kind, _ := strings.Cut(strings.TrimSpace(line), "=")
		kinds = append(kinds, kind)
		if !slices.Contains(told, kind) {
			t.Errorf("there are no words for %s", kind)
		}
	}
	if len(kinds) < 40 {
		t.Fatalf("only %d kinds of events", len(kinds))
	}
	for _, kind := range told {
		if !slices.Contains(kinds, kind) {
			t.Errorf("there are words for %s, which is no event", kind)
		}
	}
}
