package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestRefusedCommands: a command line that cannot be carried out ends with an error that
// says why, and makes nothing. Every command has one.
func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // both sides of a comparison are read at once: this one never fails
	must(t, err)
	defer func() { _ = silent.Close() }() // nothing was sent
	names := map[string]string{"MISSING": filepath.Join(dir, "missing"), "SHADOWED": dir, "SILENT": silent.Addr().String()}
	for name, file := range map[string][2]string{
		"TEXT": {"text", "hello"}, "SQL": {"text.sql", "hello"}, "LEAD": {"lead", "hello"}, "NOTHING": {"nothing", ""},
		"CONF": {"placement.conf", "[DEFAULT]\nconnection = sqlite:x\n"},
	} {
		names[name] = filepath.Join(dir, file[0])
		write(t, names[name], file[1])
	}
	refused := make(map[string]bool)
	ledgertest.Answers(t, "testdata/refused.txt", func(line, want string) string {
		words := strings.Fields(line)
		for n := range min(2, len(words)) {
			refused[strings.Join(words[:n+1], " ")] = true
		}
		names["NEW"] = t.TempDir()
		out, code := launchtest.Shell(t, name, line, names)
		if code == 0 || !strings.Contains(out, name+": ") || strings.Contains(out, "panic") || strings.Contains(out, "hunter2") {
			t.Errorf("%s ends with %d: %s", line, code, out)
		}
		for _, path := range []string{names["MISSING"], names["MISSING"] + ".sql"} {
			if _, err := os.Stat(path); err == nil {
				t.Fatalf("%s makes %s", line, path)
			}
		}
		return ledgertest.Has(out, want)
	})
	parser, err := cli.NewParser(name, description, &program{})
	must(t, err)
	for _, command := range parser.Model.Leaves(false) {
		if !refused[command.Path()] {
			t.Errorf("the table has no %q", command.Path())
		}
	}
}

// TestFlags: no flag takes a secret from the command line, or a number that it cannot mean.
func TestFlags(t *testing.T) {
	t.Parallel()
	launchtest.CheckFlags(t, name, description, &program{})
}
