package baremetal_test

import (
	either "cmp"
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
	"github.com/allot-project/allot/api/rest/resttest"
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

// played is the world as transcripts play it: after each change all allocations get their nodes, and every refusal
// is in Ironic's format.
func (w *world) played(t testing.TB) *resttest.World {
	return &resttest.World{
		Ledger: w.Ledger, Handler: w.handler,
		Version: func(header http.Header, version string) {
			if version != "none" {
				header.Set("X-OpenStack-Ironic-API-Version", either.Or(version, "latest"))
			}
		},
		After: func(r *http.Request, answer *httptest.ResponseRecorder) {
			if r.Method != http.MethodGet {
				w.settle(t)
			}
			if answer.Code >= 400 && !isFault(answer.Body.String()) {
				t.Errorf("%s %s: not in Ironic's format: %s", r.Method, r.URL, answer.Body)
			}
		},
	}
}

// play plays a transcript that a test has written.
func (w *world) play(t *testing.T, text string) {
	t.Helper()
	resttest.PlayText(t, t.Name(), text, func(t *testing.T, _ string) *resttest.World { return w.played(t) })
}

// TestTranscripts plays the transcripts in testdata.
func TestTranscripts(t *testing.T) {
	resttest.Play(t, func(t *testing.T, title string) *resttest.World {
		w := newWorld(t)
		if title == "allocations/five, of which a page has three" {
			w.handler.MaxLimit = 3
		}
		return w.played(t)
	})
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
func node(id, name, class string) string {
	return strings.NewReplacer("ID", id, "NAME", name, "CLASS", class).Replace(
		`POST /v1/nodes {"driver":"d","uuid":"ID","name":"NAME","resource_class":"CLASS"}
-> 201
PUT /v1/nodes/NAME/states/provision {"target":"manage"}
-> 202
PUT /v1/nodes/NAME/states/provision {"target":"provide"}
-> 202
`)
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
