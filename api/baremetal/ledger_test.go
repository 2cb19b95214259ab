package baremetal_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// script is a life of nodes and allocations, drawn at random.
func script(random *rand.Rand, n int) []string {
	steps := make([]string, n)
	for i := range steps {
		node, name := random.IntN(5), random.IntN(6)
		class := []string{"bm", "gold"}[random.IntN(2)]
		steps[i] = []string{
			fmt.Sprintf(`POST /v1/nodes {"driver":"d","name":"n%d","resource_class":"%s","owner":"p"}`, node, class),
			fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"manage"}`, node),
			fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"provide"}`, node),
			fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"active"}`, node),
			fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"deleted"}`, node),
			fmt.Sprintf(`PUT /v1/nodes/n%d/traits/CUSTOM_T%d`, node, random.IntN(3)),
			fmt.Sprintf(`DELETE /v1/nodes/n%d/traits`, node),
			fmt.Sprintf(`PUT /v1/nodes/n%d/maintenance {"reason":"r%d"}`, node, i),
			fmt.Sprintf(`DELETE /v1/nodes/n%d/maintenance`, node),
			fmt.Sprintf(`PATCH /v1/nodes/n%d [{"op":"add","path":"/resource_class","value":"%s"}]`, node, class),
			fmt.Sprintf(`PATCH /v1/nodes/n%d [{"op":"remove","path":"/instance_uuid"}]`, node),
			fmt.Sprintf(`PATCH /v1/nodes/n%d [{"op":"add","path":"/instance_uuid","value":"cccccccc-0000-4000-8000-%012d"}]`, node, i),
			fmt.Sprintf(`DELETE /v1/nodes/n%d`, node),
			fmt.Sprintf(`POST /v1/allocations {"resource_class":"%s","name":"a%d"}`, class, name),
			fmt.Sprintf(`POST /v1/allocations {"resource_class":"%s","name":"a%d","owner":"p"}`, class, name),
			fmt.Sprintf(`POST /v1/allocations {"resource_class":"%s","traits":["CUSTOM_T%d"]}`, class, random.IntN(3)),
			fmt.Sprintf(`POST /v1/allocations {"node":"n%d","name":"a%d"}`, node, name),
			fmt.Sprintf(`PATCH /v1/allocations/a%d [{"op":"add","path":"/extra/k","value":%d}]`, name, i),
			fmt.Sprintf(`DELETE /v1/allocations/a%d`, name),
			fmt.Sprintf(`DELETE /v1/nodes/n%d/allocation`, node),
		}[random.IntN(20)]
	}
	return steps
}

func (w *world) playScript(t *testing.T, steps []string, after func()) {
	t.Helper()
	for _, do := range steps {
		fields := strings.SplitN(do+" ", " ", 3)
		if r := w.send("", "", fields[0], fields[1], strings.TrimSpace(fields[2])); r.Code >= 500 {
			t.Fatalf("%s: %d %s", do, r.Code, r.Body)
		}
		w.settle(t)
		if after != nil {
			after()
		}
	}
}

// TestPast records what every GET answers after each step of a life, and asks
// again at the end: by sequence, by time, and with rebuilt read models.
func TestPast(t *testing.T) {
	w := newWorld(t)
	paths := []string{
		"/v1/nodes/detail", "/v1/nodes?sort_key=name", "/v1/allocations",
		"/v1/allocations?sort_key=name&sort_dir=desc&limit=3",
	}
	for i := range 5 {
		paths = append(
			paths, fmt.Sprintf("/v1/nodes/n%d", i), fmt.Sprintf("/v1/nodes/n%d/allocation", i),
			fmt.Sprintf("/v1/nodes/n%d/traits", i), fmt.Sprintf("/v1/allocations/a%d", i),
		)
	}
	type moment struct {
		at      string
		answers []string
	}
	ask := func(at string) []string {
		answers := make([]string, len(paths))
		for i, path := range paths {
			if at != "" {
				sep := "?"
				if strings.Contains(path, "?") {
					sep = "&"
				}
				path += sep + "at=" + at
			}
			r := w.send("", "", "GET", path, "")
			answers[i] = fmt.Sprintf("%s: %d %s", paths[i], r.Code, r.Body)
		}
		return answers
	}
	var moments []moment
	w.playScript(t, script(rand.New(rand.NewPCG(7, 0)), ledgertest.Cases(150, 40)), func() {
		answers := ask("")
		moments = append(moments,
			moment{fmt.Sprint(w.Views.Checkpoint().Sequence), answers},
			moment{time.Now().UTC().Format(time.RFC3339Nano), answers})
	})
	check := func(when string) {
		for _, m := range moments {
			for i, got := range ask(m.at) {
				if got != m.answers[i] {
					t.Fatalf("%s, at %s:\n%s\nthen:\n%s", when, m.at, got, m.answers[i])
				}
			}
		}
	}
	check("later")
	before, err := w.Views.Digest()
	if err != nil {
		t.Fatal(err)
	}
	w.Stop(t)
	again := commandstest.Start(t, t.TempDir(), w.Log)
	if after, err := again.Views.Digest(); err != nil || after != before {
		t.Errorf("made anew, the read models have digest %s, %v; before %s", after, err, before)
	}
	w.handler.Views = again.Views
	check("after a rebuild")
}

// placement sends a request to Placement's API.
func (w *world) placement(method, path, body string) *httptest.ResponseRecorder {
	return w.servePlacement(httptest.NewRequest(method, path, strings.NewReader(body)))
}

// servePlacement sends a request of the caller's to Placement's API.
func (w *world) servePlacement(r *http.Request) *httptest.ResponseRecorder {
	facade := &placement.Handler{
		Auth: auth.Noauth{}, Policy: w.rules, Commands: w.Writer, Views: w.Views, Logger: slog.New(slog.DiscardHandler),
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement latest")
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	facade.ServeHTTP(answer, r)
	return answer
}

// TestIdempotence: a request that is repeated with its command id happens once,
// and gets the first answer, whatever happened since.
func TestIdempotence(t *testing.T) {
	w := newWorld(t)
	w.play(t, all(node(n1, "n1", "bm"), node(n2, "n2", "bm"), []step{
		{do: `PUT /v1/nodes/n2/states/provision {"target":"active"}`, want: 202},
	}))
	send := func(n int, do string) string {
		fields := strings.SplitN(do+" ", " ", 3)
		r := httptest.NewRequest(fields[0], fields[1], strings.NewReader(strings.TrimSpace(fields[2])))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-OpenStack-Ironic-API-Version", "1.79")
		r.Header.Set("Allot-Command-Id", fmt.Sprintf("dddddddd-0000-4000-8000-%012d", n))
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r)
		w.settle(t)
		return fmt.Sprint(answer.Code, " ", answer.Header().Get("Location"), " ", answer.Body)
	}
	requests := []string{
		`POST /v1/nodes {"driver":"d","name":"fresh"}`,
		`POST /v1/allocations {"resource_class":"bm","name":"al"}`,
		`POST /v1/allocations {"node":"n2","name":"back"}`,
		`PATCH /v1/allocations/al [{"op":"add","path":"/extra/a b~1c","value":1}]`,
		`PATCH /v1/allocations/al [{"op":"replace","path":"/name","value":"other"}]`,
		`DELETE /v1/allocations/other`,
		`PUT /v1/nodes/fresh/traits/CUSTOM_T`,
		`DELETE /v1/nodes/fresh/traits/CUSTOM_T`,
		`PATCH /v1/nodes/fresh [{"op":"replace","path":"/name","value":"stale"}]`,
		`DELETE /v1/nodes/stale`,
	}
	first := make([]string, len(requests))
	for i, do := range requests {
		if first[i] = send(i, do); first[i][0] != '2' {
			t.Errorf("%s: %s", do, first[i])
		}
	}
	before := w.Views.Checkpoint()
	for i, do := range requests {
		if again := send(i, do); again != first[i] {
			t.Errorf("%s: first %s\nthen %s", do, first[i], again)
		}
	}
	if after := w.Views.Checkpoint(); after != before {
		t.Errorf("requests that were sent again moved the log to %d", after.Sequence)
	}
}

// TestDryRun answers what would happen, and changes nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.play(t, node(n1, "n1", "bm"))
	before := w.Views.Checkpoint()
	w.play(t, []step{
		{
			do: `POST /v1/allocations?dry_run=true {"resource_class":"bm"}`, want: 200,
			has: `"dry_run":true & AllocationRequested`,
		},
		{do: `PUT /v1/nodes/n1/states/provision?dry_run=true {"target":"active"}`, want: 200, has: "NodeStateSet"},
		{do: `DELETE /v1/nodes/n1?dry_run=1`, want: 200, has: "NodeDeleted"},
		{do: `DELETE /v1/allocations/none?dry_run=1`, want: 404},
	})
	if after := w.Views.Checkpoint(); after != before {
		t.Errorf("dry runs moved the log to %d", after.Sequence)
	}
}

// TestSecretsAreNotKept: no secret reaches the log, because it never forgets.
func TestSecretsAreNotKept(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{
		{
			do:   `POST /v1/nodes {"driver":"d","uuid":"` + n1 + `","driver_info":{"ipmi_address":"10.0.0.1","ipmi_password":"hunter2","redfish":{"Password":"hunter2"}}}`,
			want: 201, has: `"ipmi_address":"10.0.0.1" & "ipmi_password":"******"`, hasNot: "hunter2",
		},
		{
			do: "PATCH /v1/nodes/" + n1 + ` [{"op":"add","path":"/driver_info/snmp_auth_token","value":"hunter2"}]`, want: 200,
			hasNot: "hunter2",
		},
		{
			do:   "PATCH /v1/nodes/" + n1 + ` [{"op":"add","path":"/instance_info/admin_password","value":"hunter2"}]`,
			want: 200, hasNot: "hunter2",
		},
	})
	err := w.Log.Read(t.Context(), 1, w.Views.Checkpoint().Sequence, func(e ledger.Entry) error {
		if strings.Contains(string(e.Data), "hunter2") {
			t.Errorf("commit %d holds a secret", e.Sequence)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzRequest sends any text as a request's path and body. The answer is never a
// 500, and errors are in Ironic's format.
func FuzzRequest(f *testing.F) {
	for _, steps := range []map[string][]step{upstreamLists, upstreamPatches, upstreamPosts, upstreamDeletes} {
		for _, list := range steps {
			for _, s := range list {
				if fields := strings.SplitN(s.do+"  ", " ", 3); s.do != settle {
					f.Add(fields[0], fields[1], fields[2])
				}
			}
		}
	}
	w := newWorld(f)
	for _, s := range node(n1, "n1", "bm") {
		fields := strings.SplitN(s.do, " ", 3)
		w.send("", "", fields[0], fields[1], fields[2])
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		r, err := http.NewRequest(method, path, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		r.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r)
		if answer.Code >= 500 {
			t.Errorf("%s %q %q: %d %s", method, path, body, answer.Code, answer.Body)
		}
		if answer.Code >= 400 && method != http.MethodHead && !isFault(answer.Body.String()) {
			t.Errorf("%s %q %q: %s", method, path, body, answer.Body)
		}
	})
}

// TestRequestNamesItsCommand: a command to which the client gives no id has that which
// its request's id spells, and one to which it does has the client's.
func TestRequestNamesItsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known := func(id ledger.UUID) bool {
		t.Helper()
		_, found, err := w.Views.Command(id)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, c := range []struct {
		name, path, body string
		serve            func(*http.Request) *httptest.ResponseRecorder
	}{
		{"baremetal", "/v1/nodes", `{"driver":"fake","name":%q}`, func(r *http.Request) *httptest.ResponseRecorder {
			return w.serve(r, "", "")
		}},
		{"placement", "/resource_providers", `{"name":%q}`, w.servePlacement},
	} {
		send := func(given, name string) http.Header {
			r := httptest.NewRequest("POST", c.path, strings.NewReader(fmt.Sprintf(c.body, name)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(rest.CommandIDHeader, given)
			answer := c.serve(r)
			if answer.Code/100 != 2 {
				t.Errorf("%s: %d %s", c.name, answer.Code, answer.Body)
			}
			return answer.Header()
		}
		first, second := send("", "a"), send("", "b")
		given := commandstest.NewID()
		third := send(given.String(), "c")
		of := func(h http.Header) ledger.UUID {
			id, _, _ := ledger.ParseText(h.Get("X-Openstack-Request-Id"))
			return id
		}
		if !known(of(first)) || !known(of(second)) || of(first) == of(second) {
			t.Errorf("%s: the requests %v and %v have no commands of their ids", c.name, first, second)
		}
		if !known(given) || known(of(third)) {
			t.Errorf("%s: the command %s has the id of its request, %v", c.name, given, third)
		}
	}
}
