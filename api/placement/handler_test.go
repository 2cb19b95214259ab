package placement_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// standardRules are the rules of every handler, which reads them only.
var standardRules = sync.OnceValues(func() (*policy.Rules, error) { return policy.Load(nil, false) })

func handler(l *commandstest.Ledger) *placement.Handler {
	rules, err := standardRules()
	if err != nil {
		panic(err)
	}
	return &placement.Handler{
		Auth: auth.Noauth{}, Policy: rules,
		Commands: l.Writer, Views: l.Views, Logger: slog.New(slog.DiscardHandler),
	}
}

// overJetStream is the facade of a new ledger whose log is in JetStream.
func overJetStream(t *testing.T) (*commandstest.Ledger, http.Handler) {
	t.Helper()
	dir := t.TempDir()
	log, _ := commandstest.JetStream(t, dir, true)
	l := commandstest.Start(t, dir, log)
	return l, handler(l)
}

func send(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	return sendAt(h, "latest", method, target, body)
}

func sendAt(h http.Handler, version, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Openstack-Api-Version", "placement "+version)
	return serve(h, r)
}

// serve sends an administrator's request at the newest version, unless it has another.
func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	for name, value := range map[string]string{
		"X-Auth-Token": "admin", "Openstack-Api-Version": "placement latest", "Content-Type": "application/json",
	} {
		if r.Header.Get(name) == "" {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// inMemory is the facade of a new ledger whose log is in memory.
func inMemory(t *testing.T) (*commandstest.Ledger, *placement.Handler) {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	return l, handler(l)
}

// expect sends a request, whose answer must have a status, and some texts.
func expect(t *testing.T, h http.Handler, method, target, body string, status int, texts ...string) {
	t.Helper()
	expectAt(t, h, "latest", method, target, body, status, texts...)
}

func expectAt(t *testing.T, h http.Handler, version, method, target, body string, status int, texts ...string) {
	t.Helper()
	w := sendAt(h, version, method, target, body)
	for _, text := range append(texts, "") {
		if w.Code != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s %s %s: %d %s, not %d with %q", method, target, body, w.Code, w.Body, status, text)
		}
	}
}

// TestBadBodies: each is a 4xx in Placement's format, and changes nothing.
func TestBadBodies(t *testing.T) {
	l, h := inMemory(t)
	provider := l.Provider(t, "node", commands.Inventory{Class: "VCPU", Total: 10})
	allocate := func(amount string) string {
		return fmt.Sprintf(
			`{"allocations":{"%s":{"resources":{"VCPU":%s}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
			provider, amount,
		)
	}
	before := l.Views.Checkpoint()
	for name, c := range map[string]struct{ method, path, body string }{
		"empty":           {"POST", "/resource_providers", ``},
		"half":            {"POST", "/resource_providers", `{"name":`},
		"two documents":   {"POST", "/resource_providers", `{"name":"a"}{"name":"b"}`},
		"repeated key":    {"POST", "/resource_providers", `{"name":"a","name":"b"}`},
		"deep":            {"POST", "/resource_providers", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)},
		"long name":       {"POST", "/resource_providers", `{"name":"` + strings.Repeat("x", 1<<20) + `"}`},
		"bad UTF-8":       {"POST", "/resource_providers", "{\"name\":\"\xff\"}"},
		"NaN":             {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("NaN")},
		"1e400":           {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("1e400")},
		"1e400000000":     {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("1e400000000")},
		"2^63":            {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("9223372036854775808")},
		"2^31":            {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("2147483648")},
		"0":               {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("0")},
		"-1":              {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("-1")},
		"a string":        {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate(`"1"`)},
		"more than room":  {"PUT", "/allocations/22222222-2222-4222-8222-222222222222", allocate("11")},
		"zero in path":    {"PUT", "/resource_classes/CUSTOM_%00", ``},
		"slash in path":   {"GET", "/resource_providers/a%2Fb", ``},
		"too large":       {"POST", "/allocations", strings.Repeat(" ", placement.MaxBodyBytes+1)},
		"unknown field":   {"POST", "/resource_providers", `{"name":"a","colour":"red"}`},
		"unknown command": {"POST", "/resource_provider", `{"name":"a"}`},
		"absurd groups":   {"GET", "/allocation_candidates?group_policy=none" + manyGroups(500), ``},
		"limit 0":         {"GET", "/allocation_candidates?resources=VCPU:1&limit=0", ``},
		"time and tide":   {"GET", "/resource_providers?at=soon", ``},
		"to come":         {"GET", "/resource_providers?at=99999999", ``},
		"the year 2999":   {"GET", "/resource_providers?at=2999-01-01T00:00:00Z", ``},
		"before all":      {"GET", "/resource_providers?at=0", ``},
		"the year 1999":   {"GET", "/resource_providers?at=1999-01-01T00:00:00Z", ``},
		"past write":      {"PUT", "/allocations/22222222-2222-4222-8222-222222222222?at=1", allocate("1")},
		"at and at":       {"GET", "/resource_providers?at=1&at=2", ``},
		"explain what":    {"GET", "/allocation_candidates?resources=VCPU:1&explain=why", ``},
	} {
		w := send(h, c.method, c.path, c.body)
		var answer struct {
			Errors []struct {
				Status    int    `json:"status"`
				RequestID string `json:"request_id"`
			} `json:"errors"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Errors) != 1 || w.Code < 400 ||
			w.Code > 499 ||
			answer.Errors[0].Status != w.Code ||
			answer.Errors[0].RequestID == "" {
			t.Errorf("%s: %d %.300s", name, w.Code, w.Body)
		}
	}
	if after := l.Views.Checkpoint(); after != before {
		t.Errorf("bad requests moved the log from %d to %d", before.Sequence, after.Sequence)
	}
}

func manyGroups(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "&resources%d=VCPU:1", i+1)
	}
	return b.String()
}

// TestLargeReshape moves 10,000 consumers in one record. A reshape that the log
// cannot take is refused with 413 and changes nothing.
func TestLargeReshape(t *testing.T) {
	l, h := overJetStream(t)
	provider := l.Provider(t, "node", commands.Inventory{Class: "VCPU", Total: 100_000})
	reshape := func(count int, project string, generation int) string {
		var b strings.Builder
		fmt.Fprintf(
			&b,
			`{"inventories":{"%s":{"resource_provider_generation":%d,"inventories":{"VCPU":{"total":100000}}}},"allocations":{`,
			provider, generation,
		)
		for i := range count {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(
				&b,
				`"%s":{"allocations":{"%s":{"resources":{"VCPU":1}}},"project_id":"%s","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
				commandstest.NewID(), provider, project,
			)
		}
		return b.String() + "}}"
	}
	consumers := ledgertest.Cases(10_000, 1000)
	if w := send(h, "POST", "/reshaper", reshape(consumers, "11111111-2222-3333-4444-555555555555", 1)); w.Code != http.StatusNoContent {
		t.Fatalf("%d consumers: %d %s", consumers, w.Code, w.Body)
	}
	before := l.Views.Checkpoint()
	if w := send(h, "POST", "/reshaper", reshape(30_000, strings.Repeat("p", 255), 4)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("too much: %d %s", w.Code, w.Body)
	}
	p, found, err := l.Views.View().Provider(provider)
	changed := l.Views.Checkpoint() != before
	if err != nil || !found || p.Inventories[0].Used != int64(consumers) || p.Generation != 4 || changed {
		t.Errorf("%+v, %v, %v", p, found, err)
	}
}

// FuzzRequest sends any text to the API: no panic, no 5xx.
func FuzzRequest(f *testing.F) {
	l := commandstest.Start(f, f.TempDir(), &memlog.Log{})
	h := handler(l)
	id := ledger.UUID{1}
	f.Add("GET", "/allocation_candidates", "resources=VCPU:1&required=in:A,B&limit=3", "", "placement 1.39")
	f.Add("PUT", "/allocations/"+id.String(), "", `{"allocations":{}}`, "placement 1.28")
	f.Add("POST", "/reshaper", "", `{"inventories":{},"allocations":{}}`, "placement 1.30")
	f.Add("GET", "/resource_providers", "member_of=!in:a,b&resources=VCPU:1_0", "", "placement 1.39")
	f.Fuzz(func(t *testing.T, method, path, query, body, version string) {
		r, err := http.NewRequest(method, "http://h/", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header.Set("Openstack-Api-Version", version)
		w := serve(h, r)
		if w.Code >= 500 {
			t.Errorf("%s %s?%s %s: %d %s", method, path, query, body, w.Code, w.Body)
		}
	})
}

// TestReadsOfThePastHaveAPlace: a read of the past takes its place before anything else,
// and stops waiting for it when its client goes. Reads of the present need no such place.
// What can neither run nor wait is told to come again.
func TestReadsOfThePastHaveAPlace(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	l.Provider(t, "one", commands.Inventory{Class: "VCPU", Total: 10})
	h.Fair = fair.NewPoolOf(4, 1)
	other, err := h.Fair.Long(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	const past, present = "/allocation_candidates?resources=VCPU:1&at=3", "/allocation_candidates?resources=VCPU:1"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if w := send(h, "GET", present, ""); w.Code != http.StatusOK {
		t.Errorf("a read of the present: %d %s", w.Code, w.Body)
	}
	if w := serve(h, httptest.NewRequestWithContext(gone, "GET", past, nil)); w.Code == http.StatusOK {
		t.Errorf("a read of the past without a place: %d %s", w.Code, w.Body)
	}
	other.End()
	if w := send(h, "GET", past, ""); w.Code != http.StatusOK {
		t.Errorf("a read of the past with a place: %d %s", w.Code, w.Body)
	}
}

// placeless submits nothing, and reports whether there is a place meanwhile.
type placeless struct {
	fair *fair.Pool
	free error
}

func (p *placeless) Submit(ctx context.Context, _ commands.Submission) (commands.Outcome, error) {
	gone, cancel := context.WithCancel(ctx)
	cancel()
	var work *fair.Work
	work, p.free = p.fair.Short(gone, "another")
	work.End()
	return commands.Outcome{}, commands.ErrStopped
}

// TestLargeBodiesHaveAPlace: a large body is decoded in its turn, and not once its client has
// gone; a small one at once. A place is given back, before the command waits for its commit.
func TestLargeBodiesHaveAPlace(t *testing.T) {
	t.Parallel()
	_, h := inMemory(t)
	h.Fair = fair.NewPoolOf(1, 1)
	other, err := h.Fair.Short(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	status := func(body string) int {
		return serve(h, httptest.NewRequestWithContext(gone, "POST", "/allocations", strings.NewReader(body))).Code
	}
	small, large := `{"x":1}`, `{"x":"`+strings.Repeat("y", 100<<10)+`"}`
	if got := status(small); got != http.StatusBadRequest {
		t.Errorf("a small body: %d", got)
	}
	if got := status(large); got == http.StatusBadRequest {
		t.Errorf("a large body without a place: %d", got)
	}
	other.End()
	for range 2 {
		if got := status(large); got != http.StatusBadRequest {
			t.Errorf("a large body with a place: %d", got)
		}
	}
	one := `{"allocations":{"` + uuid.NewString() + `":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u",` +
		`"consumer_generation":null,"consumer_type":"T"}`
	many := `{"` + uuid.NewString() + `":` + one
	for range 500 {
		many += `,"` + uuid.NewString() + `":` + one
	}
	next := &placeless{fair: h.Fair, free: errors.New("nothing was submitted")}
	h.Commands = next
	if got := status(many + "}"); next.free != nil {
		t.Errorf("while a command is submitted: %d, %v", got, next.free)
	}
}

// TestCandidateOptions: the operator's settings apply to every request, and only
// clients that ask for it get an explanation.
func TestCandidateOptions(t *testing.T) {
	l, h := inMemory(t)
	l.Providers(t, 30, commands.Inventory{Class: "VCPU", Total: 10})
	ask := func(o placement.CandidateOptions, query string) (int, []json.RawMessage, json.RawMessage) {
		h.Candidates = o
		w := send(h, "GET", "/allocation_candidates?resources=VCPU:1"+query, "")
		var answer struct {
			Requests    []json.RawMessage `json:"allocation_requests"`
			Explanation json.RawMessage   `json:"explanation"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		return w.Code, answer.Requests, answer.Explanation
	}
	for name, c := range map[string]struct {
		options placement.CandidateOptions
		query   string
		code    int
		found   int
	}{
		"no bound":        {placement.CandidateOptions{}, "", 200, 30},
		"client's limit":  {placement.CandidateOptions{}, "&limit=4", 200, 4},
		"limit 2^63":      {placement.CandidateOptions{}, "&limit=9223372036854775808", 200, 30},
		"server's bound":  {placement.CandidateOptions{Max: 7}, "", 200, 7},
		"the lower bound": {placement.CandidateOptions{Max: 7}, "&limit=9", 200, 7},
		"the lower limit": {placement.CandidateOptions{Max: 7}, "&limit=3", 200, 3},
		"over the budget": {placement.CandidateOptions{MaxSteps: 300}, "", 400, 0},
		"below it":        {placement.CandidateOptions{MaxSteps: 300}, "&limit=5", 200, 5},
	} {
		if code, found, explanation := ask(c.options, c.query); code != c.code || len(found) != c.found ||
			explanation != nil {
			t.Errorf("%s: %d, %d candidates, %s", name, code, len(found), explanation)
		}
	}
	_, first, _ := ask(placement.CandidateOptions{}, "")
	_, second, _ := ask(placement.CandidateOptions{}, "")
	_, shuffled, _ := ask(placement.CandidateOptions{Shuffle: true}, "")
	same := func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }
	if !slices.EqualFunc(first, second, same) || slices.EqualFunc(first, shuffled, same) {
		t.Error("candidates in the wrong order")
	}
	if _, found, explanation := ask(placement.CandidateOptions{}, "&required=HW_CPU_X86_VMX&explain=true"); len(
		found,
	) != 0 ||
		!bytes.Contains(explanation, []byte(`"removed_last":"trees: required traits together`)) {
		t.Errorf("%d candidates, explained by %s", len(found), explanation)
	}
}

// TestDryRun: every kind of write can be tried without a trace. A rejection is
// answered as usual.
func TestDryRun(t *testing.T) {
	l, h := inMemory(t)
	p := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 10})
	before := l.Views.Checkpoint()
	allocate := func(n int) string {
		return fmt.Sprintf(
			`{"allocations":{"%s":{"resources":{"VCPU":%d}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
			p, n,
		)
	}
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"create provider":   {"POST", "/resource_providers?dry_run=true", `{"name":"q"}`, 200, "ProviderCreated"},
		"rename provider":   {"PUT", "/resource_providers/" + p.String() + "?dry_run=1", `{"name":"q"}`, 200, "ProviderRenamed"},
		"delete provider":   {"DELETE", "/resource_providers/" + p.String() + "?dry_run=true", ``, 200, "ProviderDeleted"},
		"delete inventory":  {"DELETE", "/resource_providers/" + p.String() + "/inventories/VCPU?dry_run=true", ``, 200, "InventoryDeleted"},
		"allocate":          {"PUT", "/allocations/" + commandstest.NewID().String() + "?dry_run=true", allocate(1), 200, "AllocationsReplaced"},
		"allocate too much": {"PUT", "/allocations/" + commandstest.NewID().String() + "?dry_run=true", allocate(11), 409, "Unable to allocate inventory"},
		"create trait":      {"PUT", "/traits/CUSTOM_X?dry_run=true", ``, 200, "TraitCreated"},
		"nonsense":          {"PUT", "/traits/CUSTOM_X?dry_run=perhaps", ``, 400, "dry_run"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, h, c.method, c.path, c.body, c.status, c.says) })
	}
	if after := l.Views.Checkpoint(); after != before {
		t.Errorf("the log moved from %d to %d", before.Sequence, after.Sequence)
	}
}
