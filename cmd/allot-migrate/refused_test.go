package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// TestRefusedCommands: a command line that cannot be carried out ends with an error that
// says why, and makes nothing. Every command has one.
func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing, text, sql := filepath.Join(dir, "missing"), filepath.Join(dir, "text"), filepath.Join(dir, "text.sql")
	for _, path := range []string{text, sql, filepath.Join(dir, "lead")} {
		write(t, path, "hello")
	}
	conf, empty := filepath.Join(dir, "placement.conf"), filepath.Join(dir, "empty")
	write(t, conf, "[DEFAULT]\nconnection = sqlite:x\n")
	write(t, empty, "")
	const upstream = "http://127.0.0.1:1"
	shadow := func(args ...string) []string {
		return append([]string{"shadow", "run", "--data", t.TempDir(), "--http", "127.0.0.1:0"}, args...)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // both sides of a comparison are read at once: this one never fails
	must(t, err)
	defer func() { _ = silent.Close() }() // nothing was sent
	refused := make(map[string]bool)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"name the folder for the ledger with --data", []string{"import", "placement", "--from", "sqlite:" + missing}},
		{"give only one of --from and --from-file", []string{"import", "placement", "--from", "sqlite:x", "--from-file", sql}},
		{"neither an address in its first line", []string{"import", "placement", "--from-file", conf, "--data", missing}},
		{`no rule "nonsense"`, []string{"import", "jsonl", empty, "--dry-run", "--leave-out", "nonsense"}},
		{`no rule "over-committed" refuses`, []string{"import", "jsonl", empty, "--dry-run", "--leave-out", "over-committed"}},
		{"begins neither with mysql:// nor", []string{"import", "placement", "--from", "oracle://host/db", "--data", missing}},
		{"line 1", []string{"import", "jsonl", text, "--dry-run"}},
		{"name the Ironic with --from", []string{"import", "ironic"}},
		{"name the database with --to", []string{"export", "placement"}},
		{sql + " exists", []string{"export", "placement", "--to", sql}},
		{"no server answers at 127.0.0.1:1", []string{"export", "placement", "--to", missing + ".sql", "--url", "127.0.0.1:1"}},
		{"name the Placement with --with", []string{"compare", "placement"}},
		{"there is no " + missing, []string{"compare", "placement", "--with", "sqlite:" + missing, "--url", silent.Addr().String()}},
		{"missing flags: --upstream=URL", shadow()},
		{"must be an address of this machine", shadow("--upstream", upstream, "--admin", "0.0.0.0:0")},
		{"--upstream is not", shadow("--upstream", "127.0.0.1:1")},
		{"--upstream holds a secret", shadow("--upstream", "http://admin:hunter2@127.0.0.1:1")},
		{"--allot is not", shadow("--upstream", upstream, "--allot", "mysql://x")},
		{"neither placement nor allot", shadow("--upstream", upstream, "--data", dir)},
		{"--lead", shadow("--upstream", upstream, "--lead", "nova")},
		{"ALLOT_PLACEMENT", []string{"import", "placement", "--from", "postgresql://h/db?user=u&password=hunter2"}},
		{"ALLOT_PLACEMENT", []string{"import", "placement", "--from", "mysql://me:%hunter2@h/db"}},
		{"ALLOT_PLACEMENT", []string{"compare", "placement", "--with", "mysql://me:hunter2@h/db"}},
		{"<side> must be one of", []string{"shadow", "lead", "nova"}},
		{"<shell> must be one of", []string{"completion", "sh"}},
		{"unexpected argument now", []string{"version", "now"}},
		{"unexpected argument now", []string{"manual", "now"}},
		{"unexpected argument fly", []string{"fly"}},
	} {
		for n := range min(2, len(c.args)) {
			refused[strings.Join(c.args[:n+1], " ")] = true
		}
		out := migrate(t, false, c.args...)
		says(t, out, c.says, name+": ")
		if strings.Contains(out, "panic") || strings.Contains(out, "hunter2") {
			t.Errorf("%q: %s", c.args, out)
		}
		for _, path := range []string{missing, missing + ".sql"} {
			if _, err := os.Stat(path); err == nil {
				t.Fatalf("%q makes %s", c.args, path)
			}
		}
	}
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
