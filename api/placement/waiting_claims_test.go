package placement_test

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestWaitingClaims: a claim that waits is answered with 202 and where to look, sent
// again it is answered with what has become of it, and it is in the past for ever.
func TestWaitingClaims(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	h := handler(l)
	l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 1})
	body := func(consumer, more string) string {
		return `{"requests":["resources=VCPU:2"],"consumers":[{"consumer_uuid":"` + consumer +
			`","project_id":"p","user_id":"u","consumer_type":"INSTANCE","consumer_generation":null}]` + more + `}`
	}
	const first, second = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
	if w := send(h, "POST", "/claims", body(first, "")); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "allot.no_candidates") {
		t.Fatalf("without wait: %d %s", w.Code, w.Body)
	}
	if w := send(h, "GET", "/claims/waiting", ""); !strings.Contains(w.Body.String(), `"claims":[]`) {
		t.Fatalf("without wait something waits: %s", w.Body)
	}
	for _, bad := range []string{`,"wait":0`, `,"wait":604801`, `,"wait":"1"`, `,"wait":1,"priority":101`, `,"priority":1`} {
		if w := send(h, "POST", "/claims", body(first, bad)); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	w := send(h, "POST", "/claims", body(second, `,"wait":600,"priority":2`))
	if w.Code != http.StatusAccepted {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	at := l.Views.View().Sequence()
	id := path.Base(w.Header().Get("Location"))
	shown := func(query string) (one wire.WaitingClaim) {
		t.Helper()
		w := send(h, "GET", "/claims/waiting/"+id+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s %v", w.Code, w.Body, err)
		}
		return one
	}
	if one := shown(""); one.State != "waiting" || one.Project != "p" || one.Priority != 2 || one.Asked == nil {
		t.Errorf("%+v", one)
	}
	if w := send(h, "GET", "/claims/waiting?project_id=other", ""); strings.Contains(w.Body.String(), id) {
		t.Errorf("another project has it: %s", w.Body)
	}
	if w := send(h, "DELETE", "/claims/waiting/"+id, ""); w.Code != http.StatusNoContent {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(h, "DELETE", "/claims/waiting/"+id, ""); w.Code != http.StatusNotFound {
		t.Errorf("twice: %d %s", w.Code, w.Body)
	}
	if one := shown(""); one.State != "cancelled" || one.Record == "" {
		t.Errorf("%+v", one)
	}
	if one := shown("?at=" + jsonOf(t, at)); one.State != "waiting" {
		t.Errorf("then: %+v", one)
	}
	for query, waits := range map[string]bool{"": false, "?at=" + jsonOf(t, at): true, "?at=" + jsonOf(t, at-1): false} {
		w := send(h, "GET", "/claims/waiting"+query, "")
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), id) != waits {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	for _, target := range []string{"none", "66666666-6666-4666-8666-666666666666"} {
		for _, method := range []string{"GET", "DELETE"} {
			if w := send(h, method, "/claims/waiting/"+target, ""); w.Code != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
			}
		}
	}
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
