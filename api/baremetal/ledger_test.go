package baremetal_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/rest/resttest"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
)

// everyRead are GETs of every kind, of both APIs.
func everyRead() []string {
	paths := []string{
		"/v1/nodes/detail", "/v1/nodes?sort_key=name", "/v1/allocations", "/v1/chassis/detail",
		"/v1/allocations?sort_key=name&sort_dir=desc&limit=3",
		"/resource_providers", "/resource_providers?name=a", "/resource_providers?resources=VCPU:2",
		"/resource_providers?required=CUSTOM_A", "/resource_providers?member_of=" + ledgertest.ID(3, 1).String(),
		"/resource_providers?in_tree=" + ledgertest.ID(1, 1).String(), "/traits?associated=true", "/resource_classes",
		"/usages?project_id=p", "/usages?project_id=q&user_id=u",
		"/allocation_candidates?resources=VCPU:1,CUSTOM_B:1",
		"/allocation_candidates?resources1=VCPU:1&resources2=CUSTOM_B:2&group_policy=isolate",
		"/allocation_candidates?resources=VCPU:3&explain=true&limit=2",
	}
	for i := range byte(5) {
		provider, holder := ledgertest.ID(1, i+1).String(), ledgertest.ID(2, i+1).String()
		p, n := "/resource_providers/"+provider, "/v1/nodes/"+provider
		paths = append(
			paths, p, p+"/inventories", p+"/inventories/VCPU", p+"/usages", p+"/allocations", p+"/traits", p+"/aggregates",
			n, n+"/allocation", n+"/traits", "/allocations/"+holder, "/v1/allocations/"+holder,
		)
	}
	return paths
}

// read is everything in an answer but the request's id.
func (w *world) read(path, at string) string {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	if at != "" {
		path += mark + "at=" + at
	}
	var r *httptest.ResponseRecorder
	if strings.HasPrefix(path, "/v1") {
		r = w.send("", "", "GET", path, "")
	} else {
		r = w.placement("GET", path, "")
	}
	return fmt.Sprint(r.Code, r.Header().Get(rest.SequenceHeader), requestID.ReplaceAllString(r.Body.String(), ""))
}

// TestPast asks all that can be asked at each moment of some random logs, and asks again at their ends, by
// sequence and by time.
func TestPast(t *testing.T) {
	t.Parallel()
	logs := rapid.Custom(func(rt *rapid.T) []*ledger.Commit { return commandstest.RandomCommits(rt, 12) })
	paths := everyRead()
	for seed := range ledgertest.Cases(20, 3) {
		commits := logs.Example(seed)
		views, err := projector.Open(t.TempDir(), slog.New(slog.DiscardHandler))
		ledgertest.OK(t, err)
		w := facade(t, &commandstest.Ledger{Views: views})
		answers := make(map[string]string)
		state := ledger.NewState()
		for i, c := range commits {
			changes, err := state.Fold(c)
			if err == nil {
				err = views.Fold(c, changes)
			}
			ledgertest.OK(t, err)
			moments, last := []string{fmt.Sprint(c.Sequence)}, time.Unix(0, state.LastTime()).UTC()
			shared := i+1 < len(commits) && commits[i+1].Records[0].Time == state.LastTime()
			if !shared && last.Before(time.Now()) {
				moments = append(moments, last.Format(time.RFC3339Nano))
			}
			for _, path := range paths {
				now := w.read(path, "")
				for _, at := range moments {
					answers[at+" "+path] = now
				}
			}
		}
		for asked, then := range answers {
			at, path, _ := strings.Cut(asked, " ")
			if got := strings.ReplaceAll(w.read(path, at), "&at="+url.QueryEscape(at), ""); got != then {
				t.Fatalf("log %d, %s:\n%s\nthen:\n%s", seed, asked, got, then)
			}
		}
		ledgertest.OK(t, views.Close())
	}
}

// n1 is a node that tests make.
const n1 = "11111111-0000-4000-8000-000000000001"

// placement sends a request to Placement's API.
func (w *world) placement(method, path, body string) *httptest.ResponseRecorder {
	return w.servePlacement(httptest.NewRequest(method, path, strings.NewReader(body)))
}

// servePlacement sends a request of the caller's to Placement's API.
func (w *world) servePlacement(r *http.Request) *httptest.ResponseRecorder {
	facade := &placement.Handler{Facade: rest.Facade{
		Auth: auth.Noauth{}, Policy: w.rules, Commands: w.Writer, Views: w.Views, Logger: slog.New(slog.DiscardHandler),
	}}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement latest")
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	facade.ServeHTTP(answer, r)
	return answer
}

// TestSecretsAreNotKept: no secret reaches the log, because it never forgets.
func TestSecretsAreNotKept(t *testing.T) {
	w := newWorld(t)
	w.play(t, `POST /v1/nodes {"driver":"d","name":"one",
  "driver_info":{"ipmi_address":"10.0.0.1","ipmi_password":"hunter2","redfish":{"Password":"hunter2"}}}
-> 201 "ipmi_address":"10.0.0.1"..."ipmi_password":"******"
-> not hunter2
PATCH /v1/nodes/one [{"op":"add","path":"/driver_info/snmp_auth_token","value":"hunter2"}]
-> 200
-> not hunter2
PATCH /v1/nodes/one [{"op":"add","path":"/instance_info/admin_password","value":"hunter2"}]
-> 200
-> not hunter2
`)
	err := w.Log.Read(t.Context(), 1, w.Views.Checkpoint().Sequence, func(e ledger.Entry) error {
		if strings.Contains(string(e.Data), "hunter2") {
			t.Errorf("commit %d holds a secret", e.Sequence)
		}
		return nil
	})
	ledgertest.OK(t, err)
}

// FuzzRequest sends any text as a request's path and body. The answer is never a
// 500, and errors are in Ironic's format.
func FuzzRequest(f *testing.F) {
	for _, file := range []string{"allocations", "allocations_of_nodes"} {
		text := commandstest.Must(os.ReadFile("testdata/" + file + ".txt"))
		for _, x := range resttest.Exchanges(string(text)) {
			f.Add(x.Method, x.Target, x.Body)
		}
	}
	w := newWorld(f)
	for _, x := range resttest.Exchanges(node(n1, "n1", "bm")) {
		w.send("", "", x.Method, x.Target, x.Body)
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
	ironic := func(r *http.Request) *httptest.ResponseRecorder { return w.serve(r, "", "") }
	for path, c := range map[string]struct {
		body  string
		serve func(*http.Request) *httptest.ResponseRecorder
	}{
		"/v1/nodes": {`{"driver":"fake","name":%q}`, ironic}, "/resource_providers": {`{"name":%q}`, w.servePlacement},
	} {
		// send returns whether the ids of the request and of the client are those of commands.
		send := func(name, given string) (own, clients bool) {
			r := httptest.NewRequest("POST", path, strings.NewReader(fmt.Sprintf(c.body, name)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(rest.CommandIDHeader, given)
			answer := c.serve(r)
			known := func(text string) bool {
				id, _, _ := ledger.ParseText(text)
				_, found, err := w.Views.Command(id)
				return err == nil && found && answer.Code/100 == 2
			}
			return known(answer.Header().Get("X-Openstack-Request-Id")), known(given)
		}
		first, _ := send("a", "")
		second, _ := send("b", "")
		own, clients := send("c", commandstest.NewID().String())
		if !first || !second || own || !clients {
			t.Errorf("%s: commands have the ids of requests: %v, %v; of one with a client's: %v, %v", path, first, second, own, clients)
		}
	}
}
