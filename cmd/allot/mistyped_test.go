package main_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestMistyped: who mistypes a flag is told what is wrong, and not all that there is.
func TestMistyped(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"serve", "--nosuch"}, {"serve", "--cluster-lease", "1x"}, {"nosuch"},
		{"export", "--from", "many", "file"},
	} {
		command := exec.Command(binary, args...)
		var out, fault bytes.Buffer
		command.Stdout, command.Stderr = &out, &fault
		err := command.Run()
		if err == nil || strings.Count(fault.String(), "\n") != 1 || !strings.HasPrefix(fault.String(), "allot: error: ") {
			t.Errorf("%q: %v, %s", args, err, fault.String())
		}
		if lines := strings.Count(out.String(), "\n"); lines > 3 {
			t.Errorf("%q: %d lines of help", args, lines)
		}
	}
	out, err := exec.Command(binary).Output()
	if err != nil || !strings.Contains(string(out), "Run the ledger.") {
		t.Errorf("without arguments: %v, %s", err, out)
	}
}
