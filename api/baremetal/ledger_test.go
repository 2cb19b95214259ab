package baremetal_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// TestRace: 200 clients at once want one of 100 nodes each. 100 clients get a
// node each, and the others are told that there is none.
func TestRace(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		w.play(t, node(fmt.Sprintf("11111111-0000-4000-8000-%012d", i), fmt.Sprintf("n%d", i), "bm"))
	}
	var clients sync.WaitGroup
	for i := range 200 {
		clients.Go(func() {
			if r := w.send("", "", "POST", "/v1/allocations", fmt.Sprintf(`{"resource_class":"bm","name":"a%d"}`, i)); r.Code != 201 {
				t.Errorf("%d %s", r.Code, r.Body)
			}
		})
	}
	clients.Wait()
	w.settle(t)
	nodes, failed := make(map[ledger.UUID]bool), 0
	err := w.Views.View().NodeAllocations(0, func(a *ledger.NodeAllocation) bool {
		switch a.State {
		case ledger.NodeAllocationActive:
			if nodes[a.Node] {
				t.Errorf("node %s has two allocations", a.Node)
			}
			nodes[a.Node] = true
		case ledger.NodeAllocationError:
			failed++
		}
		return true
	})
	if err != nil || len(nodes) != 100 || failed != 100 {
		t.Errorf("%d active, %d in error, %v", len(nodes), failed, err)
	}
}

// TestChoiceIsRecorded: the event has the seed of the choice, and the same
// request with that seed against the State of then gives the same node.
func TestChoiceIsRecorded(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.play(t, node(fmt.Sprintf("11111111-0000-4000-8000-%012d", i), fmt.Sprintf("n%d", i), "bm"))
	}
	for i := range 10 {
		w.play(
			t,
			[]step{{do: fmt.Sprintf(`POST /v1/allocations {"resource_class":"bm","name":"a%d"}`, i), want: 201}, {do: settle}},
		)
	}
	state, chosen := ledger.NewState(), make(map[ledger.UUID]bool)
	err := ledger.ReadCommits(
		t.Context(),
		w.Log,
		ledger.Head{},
		w.Views.Checkpoint().Sequence,
		func(c *ledger.Commit) error {
			for _, r := range c.Records {
				for _, event := range r.Events {
					if ev, ok := event.(ledger.NodeAllocated); ok {
						again, rejection := (&commands.ChooseNode{Allocation: ev.Allocation, Seed: ev.Seed}).Decide(state)
						if rejection != nil || len(again) != 1 || again[0] != event {
							t.Errorf("%v was decided, now it would be %v, %v", event, again, rejection)
						}
						chosen[ev.Node] = true
					}
				}
			}
			_, err := state.Fold(c)
			return err
		},
	)
	if err != nil || len(chosen) != 10 {
		t.Errorf("%d nodes chosen, %v", len(chosen), err)
	}
}

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
	w.playScript(t, script(rand.New(rand.NewPCG(7, 0)), 150), func() {
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

// TestNodeProviders plays lives of nodes that are providers, too, and compares
// the answers of both APIs after each step.
func TestNodeProviders(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t)
		random := rand.New(rand.NewPCG(seed, 1))
		w.playScript(t, script(random, 40), nil) // before it is turned on
		w.mustSubmit(t, &commands.SetNodeProviders{On: true, Limit: 2})
		for !w.mustSubmit(t, &commands.SetNodeProviders{On: true, Limit: 2}) {
		}
		w.compareWithPlacement(t)
		w.playScript(t, script(random, 200), func() { w.compareWithPlacement(t) })
	}
}

// mustSubmit reports whether the command changed nothing.
func (w *world) mustSubmit(t *testing.T, c commands.Command) bool {
	t.Helper()
	return w.Accept(t, c).Sequence == 0
}

// compareWithPlacement checks that every node has a provider that agrees with it.
func (w *world) compareWithPlacement(t *testing.T) {
	t.Helper()
	view := w.Views.View()
	classes, err := view.Classes()
	if err != nil {
		t.Fatal(err)
	}
	nodes := make(map[ledger.UUID]bool)
	err = view.Nodes(0, func(n *ledger.Node) bool {
		nodes[n.UUID] = true
		p, found, err := view.Provider(n.UUID)
		if err != nil || !found || len(p.Inventories) != 1 {
			t.Fatalf("node %s: %v, %v", n.Name, p, err)
		}
		inv := p.Inventories[0]
		reserved := !n.Free() && inv.Used == 0
		if classes.Name(inv.Class) != commands.NodeClassName(n.ResourceClass) || inv.Total != 1 ||
			reserved != (inv.Reserved == 1) ||
			n.Allocation.IsNil() != (inv.Used == 0) ||
			fmt.Sprint(p.Traits) != fmt.Sprint(n.Traits) {
			t.Fatalf("node %+v is provider %+v", n, p)
		}
		c, held, err := view.Consumer(n.Allocation)
		if err != nil || held == n.Allocation.IsNil() || held && c.Allocations[0].Provider != n.UUID {
			t.Fatalf("node %s: consumer %v, %v", n.Name, c, err)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	err = view.Providers(func(p *ledger.Provider) bool {
		if !nodes[p.UUID] {
			t.Fatalf("provider %s has no node", p.UUID)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
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

// TestPlacementCannotContradictNodes: Placement's clients cannot change what
// follows from a node, and a node that one of them holds is not allocated.
func TestPlacementCannotContradictNodes(t *testing.T) {
	w := newWorld(t)
	w.mustSubmit(t, &commands.SetNodeProviders{On: true, Limit: 1})
	w.play(t, all(node(n1, "n1", "bm"), node(n2, "n2", "bm"), []step{
		{
			do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm","candidate_nodes":["n1"]}`, want: 201,
		}, {do: settle},
	}))
	send := w.placement
	report := func(generation, reserved int) string {
		return fmt.Sprintf(`{"resource_provider_generation":%d,"inventories":{"CUSTOM_BM":{
			"total":1,"reserved":%d,"min_unit":1,"max_unit":1,"step_size":1,"allocation_ratio":1.0}}}`, generation, reserved)
	}
	hold := `{"allocations":{"` + n2 + `":{"resources":{"CUSTOM_BM":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"DELETE", "/resource_providers/" + n1, "", http.StatusConflict},
		{"DELETE", "/resource_providers/" + n2 + "/inventories", "", http.StatusConflict},
		{"PUT", "/resource_providers/" + n2 + "/inventories", `{"resource_provider_generation":2,"inventories":{}}`, http.StatusConflict},
		{"PUT", "/resource_providers/" + n2 + "/inventories", report(2, 0), http.StatusOK}, // as nova-compute does
		{"PUT", "/resource_providers/" + n1 + "/inventories", report(3, 1), http.StatusOK}, // n1 is used
		{"PUT", "/resource_providers/" + n1 + "/inventories", report(1, 1), http.StatusConflict},
		{"PUT", "/traits/CUSTOM_COMPUTE", "", http.StatusCreated},
		{"PUT", "/resource_providers/" + n2 + "/traits", `{"resource_provider_generation":2,"traits":["CUSTOM_COMPUTE"]}`, http.StatusOK},
		{"DELETE", "/allocations/" + a1, "", http.StatusConflict},
		{"PUT", "/allocations/" + a3, hold, http.StatusNoContent},
	} {
		if r := send(c.method, c.path, c.body); r.Code != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.Code, r.Body)
		}
	}
	rename := w.Submit(t, &commands.RenameResourceClass{Name: "CUSTOM_BM", NewName: "CUSTOM_X"})
	if rename.Rejection == nil || rename.Rejection.Code != demand.CodeNodeIsProvider {
		t.Errorf("the class of nodes is renamed: %+v", rename)
	}
	w.play(t, []step{
		{do: `POST /v1/allocations {"uuid":"` + a2 + `","resource_class":"bm"}`, want: 201}, {do: settle},
		{do: "GET /v1/allocations/" + a2, want: 200, has: `"state":"error"`},
		{do: "DELETE /v1/nodes/n2", want: 409},
		{do: "DELETE /v1/allocations/" + a1, want: 204},
	})
	if r := send("GET", "/allocations/"+a1, ""); r.Code != 200 || strings.Contains(r.Body.String(), n1) {
		t.Errorf("after the release: %d %s", r.Code, r.Body)
	}
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

// TestRetiredNodes cannot be made available.
func TestRetiredNodes(t *testing.T) {
	w := newWorld(t)
	w.play(t, all(node(n1, "n1", "bm"), []step{
		{do: `PUT /v1/nodes/n1/states/provision {"target":"manage"}`, want: 202},
		{
			do:   `PATCH /v1/nodes/n1 [{"op":"add","path":"/retired","value":true},{"op":"add","path":"/retired_reason","value":"old"}]`,
			want: 200, has: `"retired":true & "retired_reason":"old"`,
		},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"provide"}`, want: 400, has: "because it is retired"},
		{do: `GET /v1/nodes?retired=True&fields=name`, want: 200, has: "n1"},
		{do: `PATCH /v1/nodes/n1 [{"op":"remove","path":"/retired"}]`, want: 200, has: `"retired":false`},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"provide"}`, want: 202},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202},
		{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/protected","value":true}]`, want: 200},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"deleted"}`, want: 403, has: "protected"},
		{do: `DELETE /v1/nodes/n1`, want: 403},
	}))
}

// FuzzRequest sends any text as a request's path and body. The answer is never a
// 500, and errors are in Ironic's format.
func FuzzRequest(f *testing.F) {
	for _, steps := range []map[string][]step{upstreamLists, upstreamPatches, upstreamPosts, upstreamConductor} {
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
