package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// namesOfFiles makes the files of refused.txt. The data folder is that of a ledger of two commits.
func namesOfFiles(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	names := map[string]string{"FOLDER": dir}
	for name, file := range map[string]string{
		"KEY": "key", "ARCHIVE": "archive", "DATA": "data", "EMPTY": "empty", "MISSING": "missing",
	} {
		names[name] = filepath.Join(dir, file)
	}
	for name, contents := range map[string]string{
		"TEXT": "hello", "BAD_YAML": "data: [\n", "UNKNOWN_KEY": "snapshot-recrods: 5\n", "SECRET": "not as long",
		"LONG": "0123456789abcdef", "BAD_POLICY": "placement:traits:list: 'role:admin or'\n",
		"TWICE": `{"levels":[],"levels":["rack"]}`, "MORE": `{"levels":[]} }`,
	} {
		names[name] = filepath.Join(dir, strings.ToLower(name))
		write(t, names[name], contents)
	}
	must(t, os.Mkdir(names["EMPTY"], 0o750))
	names["PUBLIC"] = strings.TrimSpace(allot(t, true, "signing-key", "op.example", names["KEY"]))
	s := launch(t, names["DATA"])
	s.Must(http.StatusOK, "POST", "/resource_providers", `{"name":"node"}`)
	s.End()
	s.Kill()
	allot(t, true, "export", names["ARCHIVE"], "--data", names["DATA"])
	return names
}

// withDefaults gives a server all that it needs beside the flags of a line.
func withDefaults(line string) string {
	flags, serves := strings.CutPrefix(line, "serve ")
	if !serves {
		return line
	}
	if !strings.Contains(flags, "--data") {
		flags = "--data $NEW " + flags
	}
	return "serve --http 127.0.0.1:0 --nats '' " + flags
}

// libraries is what libraries, the kernel and bugs say.
var libraries = regexp.MustCompile(`panic|goroutine |%!|--help:|(listen|dial|read) tcp|no such file|not a directory|file exists|invalid character|\bEOF\b|deadline exceeded|` +
	`(: |\()(yaml|nats|tls|x509|slog|embedded|ledger|archive|bucket|policy): |unmarshal|does not validate|error_message|map\[|\*\w+\.\w+`)

// TestRefusedCommands: a command line that cannot be carried out ends with a sentence that says why in words of the
// program's own, and changes nothing. A server that was refused once starts when its flags are right.
func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	names := namesOfFiles(t)
	taken := ledgertest.Must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = taken.Close() }) // nothing was written
	names["TAKEN"], names["SERVER"] = taken.Addr().String(), launch(t, t.TempDir()).HTTP
	begun := ""
	ledgertest.Answers(t, "testdata/refused.txt", func(line, want string) string {
		names["NEW"] = filepath.Join(t.TempDir(), "data")
		out, code := launchtest.Shell(t, "allot", withDefaults(line), names)
		refused := code == 1 || code == 80 && strings.Contains(out, " --help shows what it takes")
		if !refused || !strings.Contains(out, "allot: ") || libraries.MatchString(out) {
			t.Errorf("%s ends with %d; want a refusal in words of its own:\n%s", line, code, out)
		}
		if _, err := os.Stat(names["NEW"]); err == nil && !strings.Contains(line, "--nats-url") {
			begun = names["NEW"]
		}
		for _, path := range []string{names["MISSING"], filepath.Join(names["EMPTY"], "log")} {
			if _, err := os.Stat(path); err == nil {
				t.Fatalf("%s makes %s", line, path)
			}
		}
		if text := read(t, names["TEXT"]); text != "hello" {
			t.Fatalf("%s changes a file to %q", line, text)
		}
		return ledgertest.Has(out, want)
	})
	launch(t, begun).End()
	says(t, allot(t, true, "verify", "--data", names["DATA"]), "2")
}

// TestServeCheckFindsWhatWouldStopAStart: settings that are good end well, each fault is named, and
// nothing is made or changed.
func TestServeCheckFindsWhatWouldStopAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := launch(t, filepath.Join(dir, "data"))
	text, config, fresh := filepath.Join(dir, "text"), filepath.Join(dir, "allot.yaml"), filepath.Join(dir, "new", "data")
	write(t, text, "hello")
	write(t, config, "log-level: info\n")
	for _, path := range []string{text, config} {
		if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	half := filepath.Join(dir, "half")
	ledgertest.OK(t, embedded.Files(filepath.Join(half, "log")).BeginImport(blocks.Import{From: "elsewhere"}))
	names := map[string]string{"TEXT": text, "CONFIG": config, "FRESH": fresh, "SERVER": s.HTTP, "HALF": half, "OTHER": dir}
	ledgertest.Answers(t, "testdata/checks.txt", func(line, want string) string {
		out, code := launchtest.Shell(t, "allot", line, names)
		return ledgertest.Has(fmt.Sprintf("%sit ends with %d", out, min(code, 1)), want)
	})
	if _, err := os.Stat(filepath.Dir(fresh)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check has made a folder: %v", err)
	}
}
