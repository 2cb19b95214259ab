package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNATSDocument runs the programs in docs/nats.md, which print what stands below them.
func TestNATSDocument(t *testing.T) {
	t.Parallel()
	text := read(t, "../../docs/nats.md")
	address := freeAddress(t)
	launch(t, t.TempDir(), "--nats", address)
	program := func(t *testing.T, language, file string) (source, prints string) {
		_, after, found := strings.Cut(text, "```"+language+"\n")
		code, after, _ := strings.Cut(after, "```\n\n```\n")
		prints, _, whole := strings.Cut(after, "```\n")
		source = filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(source, []byte(code), 0o600); err != nil || !found || !whole {
			t.Fatalf("docs/nats.md has no program in %s with what it prints: %v", language, err)
		}
		return source, prints
	}
	run := func(t *testing.T, want string, command ...string) {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "NATS_URL=nats://"+address)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("it prints\n%s%v, and the document says\n%s", out, err, want)
		}
	}
	t.Run("Go", func(t *testing.T) {
		source, prints := program(t, "go", "main.go")
		built := filepath.Join(t.TempDir(), "client")
		output(t, exec.Command("go", "build", "-o", built, source))
		run(t, prints, built)
	})
	t.Run("JavaScript", func(t *testing.T) {
		packages, err := filepath.Abs("testdata/api/node_modules")
		must(t, err)
		if _, err := os.Stat(packages + "/@nats-io/transport-node"); err != nil {
			t.Skip("skipped: NATS's client is not installed (npm ci in cmd/allot/testdata/api)")
		}
		source, prints := program(t, "js", "main.mjs")
		must(t, os.Symlink(packages, filepath.Join(filepath.Dir(source), "node_modules")))
		command := []string{"node", "--harmony-json-parse-with-source", source}
		if exec.Command("node", "-e", "JSON.rawJSON(1)").Run() == nil { // newer ones do not have the flag
			command = []string{"node", source}
		}
		run(t, prints, command...)
	})
}
