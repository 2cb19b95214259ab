package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
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
	if got := strings.Count(then, `"kind":"provider"`); got != 2504 || !strings.Contains(then, `"name":"CUSTOM_GOLD"`) {
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
	proxy := inFrontOf(s.HTTP)
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

// TestHostileNamesForgeNoDifference: names of a Placement's clients reach no terminal as they are.
func TestHostileNamesForgeNoDifference(t *testing.T) {
	const hostile = "x\x1b]0;pwned\x07\nforged-row\u202e"
	for _, inJSON := range []bool{false, true} {
		var out bytes.Buffer
		c := comparePlacementCommand{JSON: inJSON}
		if err := c.print(&out, []contents.Difference{{What: "trait " + hostile, Field: hostile, Left: hostile, Right: hostile}}); err != nil {
			t.Fatal(err)
		}
		text, ended := strings.CutSuffix(out.String(), "\n")
		if !ended || !strings.Contains(text, "forged-row") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("it prints %q", out.String())
		}
	}
}

const (
	fullHost = "99999999-9999-4999-8999-999999999999"
	unseen   = "88888888-8888-4888-8888-888888888888" // the consumer that has no row
)

// fullRows are a host with 4 VCPU, all of which a consumer without a row holds.
const fullRows = `
INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id) VALUES
  ('2024-01-02 00:00:00', 9, '` + fullHost + `', 'full', 2, 9);
INSERT INTO inventories (created_at, id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,
  step_size, allocation_ratio) VALUES ('2024-01-01 00:00:00', 9, 9, 0, 4, 0, 1, 4, 1, 1.0);
INSERT INTO allocations (created_at, id, resource_provider_id, consumer_id, resource_class_id, used) VALUES
  ('2024-03-02 00:00:00', 9, 9, '` + unseen + `', 0, 4);
`

// inFrontOf is a proxy of the server at an address.
func inFrontOf(address string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
	}}
}

// withoutConsumer answers as a Placement does whose database has no row of the unseen consumer:
// usages count its allocations, which no answer shows.
func withoutConsumer(t *testing.T, s *launchtest.Server) string {
	t.Helper()
	proxy := inFrontOf(s.HTTP)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if !strings.Contains(answer.Request.URL.Path, "allocations") || answer.Request.Method != http.MethodGet {
			return nil
		}
		document := map[string]any{}
		if err := json.NewDecoder(answer.Body).Decode(&document); err != nil {
			return err
		}
		held, _ := document["allocations"].(map[string]any)
		delete(held, unseen)
		if strings.HasSuffix(answer.Request.URL.Path, unseen) {
			document = map[string]any{"allocations": map[string]any{}}
		}
		text, err := json.Marshal(document)
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		answer.Header.Del("Content-Length")
		return err
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// TestUnseenUsage: room that is taken by allocations which Placement's API does not show is
// given to no other: the import over REST names it, the shadow does not release it, and Allot
// does not lead before it is seen.
func TestUnseenUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := "sqlite:" + placementdbtest.SQLite(t, placementdbtest.Split(fullRows)...)
	var servers [2]*launchtest.Server
	for i, name := range []string{"placement", "allot"} {
		data := filepath.Join(dir, name)
		migrate(t, true, "import", "placement", "--from", from, "--data", data)
		servers[i] = launchtest.Launch(t, data)
	}
	upstream, allot := withoutConsumer(t, servers[0]), servers[1]
	const named = "provider " + fullHost + ", VCPU: 4 used, 0 seen"
	out := migrateWith(t, "OS_TOKEN=admin", false, "import", "placement", "--from", upstream, "--dry-run")
	says(t, out, named)
	compare := func() string {
		return migrateWith(t, "OS_TOKEN=admin", false, "compare", "placement", "--with", upstream, "--url", allot.HTTP)
	}
	if out := compare(); !strings.Contains(out, named) || strings.Contains(out, "usage of") {
		t.Errorf("the comparison after the import says\n%s", out)
	}
	s := launchShadow(t, upstream, allot)
	ledgertest.WaitFor(t, "both to be found", func() bool { return s.status().UnrepairedCount == 2 })
	for i, want := range []string{"consumer " + unseen, "usage " + fullHost} {
		if got := s.status().Unrepaired[i]; got.What != want || !strings.Contains(got.Why, named) {
			t.Errorf("not in line: %+v, want %s", got, want)
		}
	}
	const candidates = "/allocation_candidates?resources=VCPU:4"
	if got := allot.Must(http.StatusOK, "GET", candidates, ""); strings.Contains(got, fullHost) {
		t.Errorf("a full host is offered: %s", got)
	}
	out = migrate(t, false, "shadow", "lead", "allot", "--admin", s.admin, "--wait", ledgertest.Hang.String())
	if !strings.Contains(out, named) || s.status().Lead != "placement" {
		t.Errorf("the change of the lead says %s", out)
	}
	allot.Must(http.StatusNoContent, "DELETE", "/allocations/"+unseen, "")
	says(t, compare(), "usage of VCPU: Placement 4, Allot nothing")
}
