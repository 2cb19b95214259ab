package ledgertest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet; existing ones are never changed")

// Golden reads a file in testdata of the package under test. If it does not
// exist, -update writes what it should hold.
func Golden(t *testing.T, name, now string) string {
	t.Helper()
	path := filepath.Join("testdata", name)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && *update:
		if err := os.WriteFile(path, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		return now
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("%s does not exist: if its form is new, write it with -update and commit it", path)
	case err != nil:
		t.Fatal(err)
	}
	return string(text)
}
