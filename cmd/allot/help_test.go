package main_test

import (
	"regexp"
	"testing"
)

// TestHelpIsShort: --help shows the flags that most need, and --help-all all of them.
func TestHelpIsShort(t *testing.T) {
	t.Parallel()
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?--[a-z-]+`)
	usual := flags.FindAllString(allot(t, true, "serve", "--help"), -1)
	all := flags.FindAllString(allot(t, true, "serve", "--help-all"), -1)
	if len(usual) > 20 || len(all) > 52 || len(all) < 2*len(usual) {
		t.Errorf("%d of %d flags are usual", len(usual), len(all))
	}
}
