package baremetal_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// world is a facade over a running ledger.
type world struct {
	*commandstest.Ledger
	handler *baremetal.Handler
	rules   *policy.Rules
}

// standardRules are the rules of every world, which reads them only.
var standardRules = sync.OnceValues(func() (*policy.Rules, error) { return policy.Load(nil, false) })

func newWorld(t testing.TB) *world {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	a := processes.StartNodePlacer(l.Writer, l.Views, slog.New(slog.DiscardHandler))
	t.Cleanup(a.Stop)
	return facade(t, l)
}

func facade(t testing.TB, l *commandstest.Ledger) *world {
	t.Helper()
	rules := commandstest.Must(standardRules())
	return &world{Ledger: l, rules: rules, handler: &baremetal.Handler{Facade: rest.Facade{
		Commands: l.Writer, Views: l.Views, Logger: slog.New(slog.DiscardHandler),
		Auth: auth.Noauth{}, Policy: rules,
	}, Noauth: true}}
}

// send sends a request. An empty version is the newest, and an empty sender is
// anonymous and may do everything.
func (w *world) send(version, who, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "example.com"
	r.Header.Set("Content-Type", "application/json")
	return w.serve(r, version, who)
}

// serve sends a request of the caller's.
func (w *world) serve(r *http.Request, version, who string) *httptest.ResponseRecorder {
	if version == "" {
		version = "latest"
	}
	if version != "none" {
		r.Header.Set("X-OpenStack-Ironic-API-Version", version)
	}
	if who != "" {
		user, roles, _ := strings.Cut(who, " ")
		roles, system := strings.CutSuffix(roles, " of the system")
		if system {
			r.Header.Set("OpenStack-System-Scope", "all")
		}
		r.Header.Set("X-Auth-Token", user)
		r.Header.Set("X-Roles", roles)
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

// settle waits until no allocation waits for a node. It asks a view, like the
// requests after it, because the list of waiting allocations is not versioned and
// may be ahead of the newest view by the commit that is being folded.
func (w *world) settle(t testing.TB) {
	t.Helper()
	ledgertest.WaitFor(t, "nodes for all allocations", func() bool {
		waits := false
		if err := w.Views.View().NodeAllocations(0, func(a *ledger.NodeAllocation) bool {
			waits = a.State == ledger.NodeAllocating
			return !waits
		}); err != nil {
			t.Fatal(err)
		}
		return !waits
	})
}

// step is a request, and the expected answer.
type step struct {
	version string // empty: the newest
	who     string // token and roles, and "of the system"; empty: anonymous, and may do everything
	do      string // METHOD PATH [BODY]; empty: only settle
	want    int
	has     string // texts in the answer, separated by " & "
	hasNot  string // texts not in the answer, likewise
}

const settle = "settle"

func (w *world) play(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		if s.do == settle {
			w.settle(t)
			continue
		}
		fields := strings.SplitN(s.do, " ", 3)
		body := ""
		if len(fields) == 3 {
			body = fields[2]
		}
		answer := w.send(s.version, s.who, fields[0], fields[1], body)
		text := answer.Body.String()
		if answer.Code != s.want {
			t.Errorf("%s: %d %s; want %d", s.do, answer.Code, text, s.want)
			continue
		}
		if answer.Code >= 400 && !isFault(text) {
			t.Errorf("%s: not in Ironic's format: %s", s.do, text)
		}
		text += " Location=" + answer.Header().Get("Location") + " Allow=" + answer.Header().Get("Allow")
		for _, part := range parts(s.has) {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s lacks %s", s.do, text, part)
			}
		}
		for _, part := range parts(s.hasNot) {
			if strings.Contains(text, part) {
				t.Errorf("%s: %s has %s", s.do, text, part)
			}
		}
	}
}

func parts(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, " & ")
}

// isFault reports whether a body is an error in Ironic's format.
func isFault(body string) bool {
	var outer struct {
		Message string `json:"error_message"`
	}
	var inner struct {
		FaultCode   string `json:"faultcode"`
		FaultString string `json:"faultstring"`
	}
	return json.Unmarshal([]byte(body), &outer) == nil && json.Unmarshal([]byte(outer.Message), &inner) == nil &&
		inner.FaultCode != "" && inner.FaultString != ""
}

// node makes a node of a class that can be allocated.
func node(id, name, class string) []step {
	return []step{
		{do: `POST /v1/nodes {"driver":"d","uuid":"` + id + `","name":"` + name + `","resource_class":"` + class + `"}`,
			want: 201},
		{do: "PUT /v1/nodes/" + name + `/states/provision {"target":"manage"}`, want: 202},
		{do: "PUT /v1/nodes/" + name + `/states/provision {"target":"provide"}`, want: 202},
	}
}

func all(lists ...[]step) []step {
	var steps []step
	for _, list := range lists {
		steps = append(steps, list...)
	}
	return steps
}

// TestBadInput: each invalid request gets an error in Ironic's format with the
// right code, and changes nothing.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.play(t, all(node(n1, "n1", "bm"), []step{
		{do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"none","name":"taken"}`, want: 201}, {do: settle},
	}))
	before := w.Views.Checkpoint()
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	w.play(t, []step{
		{do: "POST /v1/allocations {", want: 400, has: "not JSON"},
		{do: `POST /v1/allocations {"resource_class":"x"}{}`, want: 400},
		{do: "POST /v1/allocations {\"resource_class\":\"\xff\"}", want: 400, has: "UTF-8"},
		{do: `POST /v1/allocations {"resource_class":"x","extra":` + deep + `}`, want: 400, has: "deeper"},
		{do: `POST /v1/allocations {"extra":{"a":"` + strings.Repeat("x", 70000) + `"}}`, want: 400, has: "at most"},
		{do: "POST /v1/allocations " + strings.Repeat(" ", baremetal.MaxBodyBytes+1), want: 413},
		{do: `POST /v1/allocations {"resource_class":"x","nam":"y"}`, want: 400, has: "'nam' was unexpected"},
		{do: `POST /v1/allocations {"resource_class":"x","traits":["CUSTOM_"]}`, want: 400},
		{do: `POST /v1/allocations {"resource_class":"x","traits":[1]}`, want: 400},
		{do: `POST /v1/nodes {"driver":"d","name":"` + n2 + `"}`, want: 400, has: "invalid name"},
		{do: `POST /v1/nodes {"driver":"d","name":"states"}`, want: 400, has: "invalid name"},
		{do: `POST /v1/nodes {"driver":"d","colour":"red"}`, want: 400}, {do: `POST /v1/nodes {"driver":""}`, want: 400},
		{do: `POST /v1/nodes {"driver":"d","instance_uuid":"x"}`, want: 400},
		{do: `POST /v1/nodes {"driver":"d","retired":"perhaps"}`, want: 400, has: "Unrecognized value"},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/retired","value":"perhaps"}]`, want: 400, has: "Unrecognized value"},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/retired","value":"True"}]`, want: 409, has: "retired"},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/name","value":7}]`, want: 400, has: "7 is not of type"},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/properties/a/b","value":7}]`, want: 400, has: "Couldn't apply patch"},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/name","value":"a b"}]`, want: 400},
		{do: `PATCH /v1/nodes/n1 [{"op":"remove","path":"/driver"}]`, want: 400},
		{do: `PATCH /v1/nodes/n1 [{"op":"move","from":"/name","path":"/driver"}]`, want: 400},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/extra/x"}]`, want: 400},
		{do: `PATCH /v1/allocations/taken [{"op":"add","path":"/name/x","value":"y"}]`, want: 400},
		{do: `PUT /v1/nodes/n1/traits {"traits":["nope"]}`, want: 400}, {do: `PUT /v1/nodes/n1/traits {}`, want: 400},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"inspect"}`, want: 400},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"adopt","why":1}`, want: 400},
		{do: `PUT /v1/nodes/n1/states/power {"target":"off"}`, want: 400},
		{do: `PUT /v1/nodes/n1/maintenance {"reason":7}`, want: 400},
		{do: "GET /v1/allocations?limit=-1", want: 400, has: "Limit must be positive"},
		{do: "GET /v1/allocations?limit=1&limit=2", want: 400}, {do: "GET /v1/allocations?marker=taken", want: 400},
		{do: "GET /v1/allocations?marker=" + n1, want: 404}, {do: "GET /v1/allocations?at=0", want: 400},
		{do: "GET /v1/allocations?at=2999-01-01T00:00:00Z", want: 400},
		{do: `DELETE /v1/allocations/taken?at=1`, want: 400, has: "only a GET"},
		{do: "GET /v1/nodes?maintenance=perhaps", want: 400}, {do: "GET /v1/nodes?marker=" + a1, want: 404},
		{do: "GET /v1/nodes?detail=true&fields=uuid", want: 400}, {do: "GET /v1/nodes/n1?fields=colour", want: 400},
		{do: "GET /v1/nodes/n1/vifs", want: 404}, {do: "GET /v1/drivers", want: 404, has: "contacts no hardware"},
		{do: "PUT /v1/nodes", want: 405, has: "Allow=GET, POST"}, {do: "POST /v1", want: 405}, {do: "POST /", want: 405},
		{who: "other reader", version: "1.5", do: "DELETE /v1/nodes/n1", want: 404},
	})
	if after := w.Views.Checkpoint(); after != before {
		t.Errorf("bad requests moved the log from %d to %d", before.Sequence, after.Sequence)
	}
}

// noting notes what is submitted last.
type noting struct {
	commands.Submitter
	last commands.Submission
}

func (n *noting) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	n.last = s
	return n.Submitter.Submit(ctx, s)
}

// TestWhoLoadsInBulk: each command names its client, on whose account it adds to the log, and only
// administrators and services add to it without a bound.
func TestWhoLoadsInBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for who, bulk := range map[string]bool{"p member": false, "admin": true, "nova service": true} {
		n := &noting{Submitter: w.handler.Commands}
		w.handler.Commands = n
		answer := w.send("", who, "POST", "/v1/allocations", `{"resource_class":"bm"}`)
		if n.last.Client == "" || n.last.Bulk != bulk {
			t.Errorf("%s: %d, %+v", who, answer.Code, n.last)
		}
	}
}

// identMissing are methods that need an ident in the path, which Ironic says
// with 400 instead of 405.
var identMissing = map[string]bool{"PATCH /allocations": true, "DELETE /allocations": true}

// TestDescribe: what is described is what the facade does, and nothing else.
func TestDescribe(t *testing.T) {
	d := openapi.New("", "", "")
	ledgertest.OK(t, baremetal.Describe(d))
	paths := d.Object()["paths"].(openapi.Object)
	if len(paths) != len(baremetal.Paths) {
		t.Errorf("%d paths are described of %d", len(paths), len(baremetal.Paths))
	}
	w := newWorld(t)
	for _, path := range baremetal.Paths {
		described, _ := paths[baremetal.Prefix+"/v1"+path].(openapi.Object)
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			said := described[strings.ToLower(method)] != nil
			does := w.send("latest", "admin", method, "/v1"+path, "{}").Code != http.StatusMethodNotAllowed
			if said != (does && !identMissing[method+" "+path]) {
				t.Errorf("%s %s: the facade has it: %v, described: %v", method, path, does, said)
			}
		}
	}
}
