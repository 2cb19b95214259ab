package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	importedHost   = "11111111-1111-4111-8111-111111111111"
	importedServer = "44444444-4444-4444-8444-444444444444"
)

// TestImportPlacement begins a ledger with a database that has odd rows, and another one through the REST API
// of that server. Both have the same contents, differences are found when one changes, and they go on from there.
func TestImportPlacement(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := "sqlite:" + placementdbtest.SQLite(t, placementdbtest.Split(placementdbtest.Odd)...)
	first, second, file := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "report.json")
	dry := migrate(t, true, "import", "placement", "--from", from, "--dry-run", "--report", file)
	out := migrate(t, true, "import", "placement", "--from", from, "--data", first)
	if !strings.HasPrefix(out, dry) || !strings.Contains(out, "holds 4 providers and 4 consumers") {
		t.Errorf("the dry run printed\n%s\nand the import\n%s", dry, out)
	}
	checkReport(t, file, dry)
	a := launchtest.Launch(t, first)
	out = migrateWith(t, "OS_TOKEN=admin", true, "import", "placement", "--from", "http://"+a.HTTP, "--data", second)
	says(t, out, "not told by the source: when providers", "holds 4 providers and 4 consumers")
	b := launchtest.Launch(t, second)
	for _, with := range []string{from, "http://" + a.HTTP} {
		out := migrateWith(t, "OS_TOKEN=admin", true, "compare", "placement", "--with", with, "--url", b.HTTP)
		says(t, out, "no differences: 4 providers, 4 consumers")
	}
	b.Must(http.StatusNoContent, "DELETE", "/allocations/"+importedServer, "")
	b.Must(http.StatusCreated, "PUT", "/traits/CUSTOM_NEW", "")
	out = migrate(t, false, "compare", "placement", "--with", from, "--url", b.HTTP)
	says(t, out,
		"consumer "+importedServer+", itself: Placement exists, Allot nothing",
		"trait CUSTOM_NEW, itself: Placement nothing",
		"provider "+importedHost+", usage of VCPU: Placement 2, Allot nothing", "not equal: ")
	out = migrateWith(t, "OS_TOKEN=admin", false, "compare", "placement", "--with", "http://"+a.HTTP, "--url", b.HTTP)
	says(t, out, "candidates of resources=", "summary of "+importedHost)
	away := migrate(t, false, "compare", "placement", "--with", "http://127.0.0.1:1", "--url", a.HTTP)
	if !strings.Contains(away, "nothing listens there") || strings.Contains(away, "import") {
		t.Errorf("a comparison says %s", away)
	}
	for _, row := range []struct{ why, from string }{
		{"401 Unauthorized", "http://" + a.HTTP}, {"nothing listens there", "http://127.0.0.1:1"}, {"unexpected answer", "http://" + a.HTTP + "/none"},
	} {
		out := migrate(t, false, "import", "placement", "--from", row.from, "--data", filepath.Join(dir, "bad"))
		if !strings.Contains(out, row.why) || !strings.Contains(out, "nothing was imported") {
			t.Errorf("%s: %s", row.from, out)
		}
	}
	a.Must(http.StatusOK, "PUT", "/resource_providers/"+importedHost+"/traits",
		`{"resource_provider_generation":7,"traits":[]}`)
	a.Terminate()
	allot(t, true, "verify", "--data", first)
	says(t, migrate(t, false, "import", "placement", "--from", from, "--data", first), "belonged to a server")
}

// checkReport compares the report in a file with the printed one.
func checkReport(t *testing.T, file, printed string) {
	t.Helper()
	text := read(t, file)
	var report contents.Report
	must(t, json.Unmarshal([]byte(text), &report))
	if report.Rows != report.Imported+report.LeftOut || report.LeftOut != 3 || len(report.Findings) < 10 {
		t.Errorf("%s", text)
	}
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, fmt.Sprintf("%d rows, %d imported, ", report.Rows, report.Imported)) {
		t.Errorf("the last line is %q", last)
	}
}

// TestImportKilledWhileItReads: where an import was killed before it had read anything, no
// server begins an empty ledger, and the import can be started again. One that fails leaves
// the folder as it was.
func TestImportKilledWhileItReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file, bad := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "bad")
	must(t, syscall.Mkfifo(pipe, 0o600))
	provider := `{"kind":"provider","uuid":"` + importedHost + `","name":"n","inventories":[{"class":"VCPU","total":8}]}` + "\n"
	for path, text := range map[string]string{file: provider, bad: provider + "{\n"} {
		write(t, path, text)
	}
	data := filepath.Join(dir, "data")
	reads := launchtest.Start(t, "", name, nil, "import", "jsonl", pipe, "--data", data)
	ledgertest.WaitFor(t, "the mark", func() bool {
		_, err := os.Stat(filepath.Join(data, "log", "importing"))
		return err == nil
	})
	reads.Kill()
	launchtest.Refused(t, data, "an import into this folder is unfinished", "it was to come from pipe", "To recover")
	empty := filepath.Join(dir, "empty")
	must(t, os.Mkdir(empty, 0o750))
	for _, into := range []string{empty, filepath.Join(dir, "new")} {
		migrate(t, false, "import", "jsonl", bad, "--data", into)
		left, err := os.ReadDir(into)
		if into == empty && (err != nil || len(left) > 1) || into != empty && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a failed import leaves %v in %s, %v", left, into, err)
		}
	}
	for _, into := range []string{data, empty} {
		migrate(t, true, "import", "jsonl", file, "--data", into)
		says(t, allot(t, true, "verify", "--data", into), "good up to sequence 1: 3 records")
	}
}
