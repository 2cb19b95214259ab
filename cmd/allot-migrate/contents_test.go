package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// TestContentsBeginALedger: what a server tells of itself begins another ledger with the same
// contents, whatever is odd about it, as of any moment.
func TestContentsBeginALedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second, file := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "contents.jsonl")
	from := "sqlite:" + placementdbtest.SQLite(t, append(placementdbtest.Split(placementdbtest.Odd), paddedProviders(2500)...)...)
	migrate(t, true, "import", "placement", "--from", from, "--data", first)
	a := launchtest.Launch(t, first)
	then := a.Must(http.StatusOK, "GET", "/audit/contents", "")
	if got := strings.Count(then, `"kind":"provider"`); got != 2503 || !strings.Contains(then, `"name":"CUSTOM_GOLD"`) {
		t.Errorf("it tells of %d providers", got)
	}
	sequence := strings.TrimSpace(a.Must(http.StatusOK, "GET", "/audit/status", ""))
	a.Must(http.StatusNoContent, "DELETE", "/allocations/"+importedServer, "")
	if now := a.Must(http.StatusOK, "GET", "/audit/contents", ""); strings.Contains(now, importedServer) {
		t.Error("what was deleted is still told")
	}
	_, at, _ := strings.Cut(sequence, `"sequence":`)
	at = strings.TrimSpace(strings.FieldsFunc(at, func(r rune) bool { return r == ',' || r == '}' })[0])
	if again := a.Must(http.StatusOK, "GET", "/audit/contents?at="+at, ""); again != then {
		t.Error("the past is told in another way than it was then")
	}
	write(t, file, then)
	a.Terminate()
	migrate(t, true, "import", "jsonl", file, "--data", second)
	b := launchtest.Launch(t, second)
	says(t, migrate(t, true, "compare", "placement", "--with", from, "--url", b.HTTP), "no differences")
	b.Terminate()
}

// TestCompareWithoutAudit: an account that may not ask for the contents still compares and
// exports, through Placement's API, and is told so.
func TestCompareWithoutAudit(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	from := "sqlite:" + placementdbtest.SQLite(t)
	migrate(t, true, "import", "placement", "--from", from, "--data", data)
	s := launchtest.Launch(t, data)
	proxy := inFrontOf(s)
	forbids := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/audit/") {
			http.Error(w, "allot:audit", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer forbids.Close()
	out := migrate(t, true, "compare", "placement", "--with", from, "--url", forbids.URL)
	says(t, out, "reading through Placement's API", "403 Forbidden", "no differences: 2 providers, 1 consumers")
	s.Terminate()
}
