package placement_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/rest/resttest"
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
	return &placement.Handler{Facade: rest.Facade{
		Auth: auth.Noauth{}, Policy: rules,
		Commands: l.Writer, Views: l.Views, Logger: slog.New(slog.DiscardHandler),
	}}
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
	w := send(h, method, target, body)
	for _, text := range append(texts, "") {
		if w.Code != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s %s %s: %d %s, not %d with %q", method, target, body, w.Code, w.Body, status, text)
		}
	}
}

// TestTranscripts plays the transcripts in testdata.
func TestTranscripts(t *testing.T) {
	resttest.Play(t, func(t *testing.T, _ string) *resttest.World { return played(t) })
}

// played is a world of transcripts: every refusal is in Placement's format, and a replay has the same read models.
func played(t *testing.T) *resttest.World {
	l, h := inMemory(t)
	t.Cleanup(func() { commandstest.CheckReplay(t, l) })
	return &resttest.World{
		Ledger: l, Handler: h,
		Version: func(header http.Header, version string) {
			header.Set("Openstack-Api-Version", "placement "+cmp.Or(version, "latest"))
			header.Set("X-Auth-Token", cmp.Or(header.Get("X-Auth-Token"), "admin"))
		},
		After: func(r *http.Request, w *httptest.ResponseRecorder) {
			if w.Code >= 400 && !isRefusal(w) {
				t.Errorf("%s %.100s: not in Placement's format: %d %.300s", r.Method, r.URL, w.Code, w.Body)
			}
		},
	}
}

// isRefusal reports whether an answer is an error in Placement's format.
func isRefusal(w *httptest.ResponseRecorder) bool {
	var answer struct {
		Errors []struct {
			Status    int    `json:"status"`
			RequestID string `json:"request_id"`
		} `json:"errors"`
	}
	err := json.Unmarshal(w.Body.Bytes(), &answer)
	return err == nil && w.Header().Get("Content-Type") == "application/json" && len(answer.Errors) == 1 &&
		answer.Errors[0].Status == w.Code && answer.Errors[0].RequestID != ""
}

// TestDevicesDocument plays the blocks of docs/devices.md.
func TestDevicesDocument(t *testing.T) {
	t.Parallel()
	const path = "../../docs/devices.md"
	script := ""
	for i, block := range strings.Split(string(commandstest.Must(os.ReadFile(path))), "```") {
		if i%2 == 1 {
			script += block
		}
	}
	if sent := len(resttest.Exchanges(script)); sent < 15 {
		t.Errorf("the document has %d requests", sent)
	}
	resttest.PlayText(t, path, script, func(t *testing.T, _ string) *resttest.World { return played(t) })
}

// TestManyGroups: a request for more groups than there may be is refused.
func TestManyGroups(t *testing.T) {
	_, h := inMemory(t)
	groups := ""
	for i := range 500 {
		groups += fmt.Sprintf("&resources%d=VCPU:1", i+1)
	}
	if w := send(h, "GET", "/allocation_candidates?group_policy=none"+groups, ""); w.Code != 400 || !isRefusal(w) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLargeReshape moves 10,000 consumers in one record. A reshape that the log
// cannot take is refused with 413 and changes nothing.
func TestLargeReshape(t *testing.T) {
	dir := t.TempDir()
	log, _ := commandstest.JetStream(t, dir, true)
	l := commandstest.Start(t, dir, log)
	h := handler(l)
	provider := l.Provider(t, "node", commands.Inventory{Class: "VCPU", Total: 100_000})
	reshape := func(count int, project string, generation int) int {
		allocations := make([]string, count)
		for i := range allocations {
			one := strings.Replace(taking(provider, 1), `"project_id":"p"`, `"project_id":"`+project+`"`, 1)
			allocations[i] = fmt.Sprintf(`"%s":%s`, commandstest.NewID(), one)
		}
		return send(h, "POST", "/reshaper", fmt.Sprintf(
			`{"inventories":{"%s":{"resource_provider_generation":%d,"inventories":{"VCPU":{"total":100000}}}},"allocations":{%s}}`,
			provider, generation, strings.Join(allocations, ","),
		)).Code
	}
	consumers := ledgertest.Cases(10_000, 1000)
	if status := reshape(consumers, "11111111-2222-3333-4444-555555555555", 1); status != http.StatusNoContent {
		t.Fatalf("%d consumers: %d", consumers, status)
	}
	before := l.Views.Checkpoint()
	if status := reshape(30_000, strings.Repeat("p", 255), 4); status != http.StatusRequestEntityTooLarge {
		t.Errorf("too much: %d", status)
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
	other := commandstest.Must(h.Fair.Long(t.Context(), "other"))
	const past, present = "/allocation_candidates?resources=VCPU:1&at=3", "/allocation_candidates?resources=VCPU:1"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, h, "GET", present, "", 200)
	if w := serve(h, httptest.NewRequestWithContext(gone, "GET", past, nil)); w.Code == http.StatusOK {
		t.Errorf("a read of the past without a place: %d %s", w.Code, w.Body)
	}
	other.End()
	expect(t, h, "GET", past, "", 200)
	commandstest.TakeMemory(h.Fair) // also an answer in pieces needs some until its client has it
	expect(t, h, "GET", present, "", 503)
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
	other := commandstest.Must(h.Fair.Short(t.Context(), "other"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	refused := func(body string) bool {
		r := httptest.NewRequestWithContext(gone, "POST", "/allocations", strings.NewReader(body))
		return serve(h, r).Code == http.StatusBadRequest
	}
	small, large := `{"x":1}`, `{"x":"`+strings.Repeat("y", 100<<10)+`"}`
	if !refused(small) || refused(large) {
		t.Error("without a place a small body is not decoded, or a large one is")
	}
	other.End()
	for range 2 {
		if !refused(large) {
			t.Error("with a place a large body is not decoded")
		}
	}
	one := taking(commandstest.NewID(), 1)
	many := fmt.Sprintf(`{"%s":%s`, commandstest.NewID(), one)
	for range 500 {
		many += fmt.Sprintf(`,"%s":%s`, commandstest.NewID(), one)
	}
	next := &placeless{fair: h.Fair, free: errors.New("nothing was submitted")}
	h.Commands = next
	if refused(many + "}"); next.free != nil {
		t.Errorf("while a command is submitted: %v", next.free)
	}
}

// TestCandidateOptions: the operator's settings apply to every request, and only
// clients that ask for it get an explanation.
func TestCandidateOptions(t *testing.T) {
	l, h := inMemory(t)
	l.Providers(t, 30, commands.Inventory{Class: "VCPU", Total: 10})
	type options = placement.CandidateOptions
	ask := func(o options, query string) (status int, found []json.RawMessage, explanation string) {
		h.Candidates = o
		w := send(h, "GET", "/allocation_candidates?resources=VCPU:1"+query, "")
		var answer struct {
			Requests    []json.RawMessage `json:"allocation_requests"`
			Explanation json.RawMessage   `json:"explanation"`
		}
		ledgertest.OK(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return w.Code, answer.Requests, string(answer.Explanation)
	}
	for name, c := range map[string]struct {
		options     options
		query       string
		code, found int
	}{
		"no bound":        {options{}, "", 200, 30},
		"client's limit":  {options{}, "&limit=4", 200, 4},
		"limit 2^63":      {options{}, "&limit=9223372036854775808", 200, 30},
		"server's bound":  {options{Max: 7}, "", 200, 7},
		"the lower bound": {options{Max: 7}, "&limit=9", 200, 7},
		"the lower limit": {options{Max: 7}, "&limit=3", 200, 3},
		"over the budget": {options{MaxSteps: 300}, "", 400, 0},
		"below it":        {options{MaxSteps: 300}, "&limit=5", 200, 5},
	} {
		code, found, explanation := ask(c.options, c.query)
		if code != c.code || len(found) != c.found || explanation != "" {
			t.Errorf("%s: %d, %d candidates, %s", name, code, len(found), explanation)
		}
	}
	_, first, _ := ask(options{}, "")
	_, second, _ := ask(options{}, "")
	_, shuffled, _ := ask(options{Shuffle: true}, "")
	if !reflect.DeepEqual(first, second) || reflect.DeepEqual(first, shuffled) {
		t.Error("candidates in the wrong order")
	}
	_, found, explanation := ask(options{}, "&required=HW_CPU_X86_VMX&explain=true")
	if len(found) != 0 || !strings.Contains(explanation, `"removed_last":"trees: required traits together`) {
		t.Errorf("%d candidates, explained by %s", len(found), explanation)
	}
}

// taking is the body with which a consumer takes some VCPU of a provider.
func taking(provider fmt.Stringer, amount any) string {
	return fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":%v}}},"project_id":"p","user_id":"u",`+
		`"consumer_generation":null,"consumer_type":"T"}`, provider, amount)
}

// told sends a request that succeeds, and reads its answer.
func told[T any](t *testing.T, h http.Handler, version, target string) (answer T) {
	t.Helper()
	w := sendAt(h, version, "GET", target, "")
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	return answer
}
