package ledgertest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write answers anew, and stored forms that are new; existing ones never change")

// Golden reads a file in testdata of the package under test. If the file does not
// exist, -update writes the given contents.
func Golden(t *testing.T, name, now string) string {
	t.Helper()
	path := filepath.Join("testdata", name)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && *update:
		OK(t, os.WriteFile(path, []byte(now), 0o600))
		return now
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("%s does not exist: if its form is new, write it with -update and commit it", path)
	case err != nil:
		t.Fatal(err)
	}
	return string(text)
}

// GoldenLines compares a list with a file in testdata, which is only ever added
// to. Each line that one of them lacks is an error. -update adds lines.
func GoldenLines(t *testing.T, name string, now []string) {
	t.Helper()
	whole := Golden(t, name, strings.Join(now, "\n")+"\n")
	golden := strings.Fields(whole)
	for _, line := range golden {
		if !slices.Contains(now, line) {
			t.Errorf("%s has %s, which is no more: it is stored for ever", name, line)
		}
	}
	for _, line := range now {
		switch {
		case slices.Contains(golden, line):
		case *update:
			whole += line + "\n"
		default:
			t.Errorf("%s does not have %s: if it is new, add it with -update", name, line)
		}
	}
	if *update {
		OK(t, os.WriteFile(filepath.Join("testdata", name), []byte(whole), 0o600))
	}
}

// Updating reports whether tests are to write what they expect anew (-update).
func Updating() bool { return *update }
