package placement_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/api/rest"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/ledger/memlog"
)

// cloud sends random requests about a few providers and consumers.
type cloud struct {
	rt *rapid.T
	h  http.Handler
}

func (c *cloud) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(c.rt, label) }
func (c *cloud) provider() string             { return ledgertest.ID(1, byte(c.pick("provider", 4))).String() }
func (c *cloud) consumer() string             { return ledgertest.ID(2, byte(c.pick("consumer", 4))).String() }

// generation reads a generation, as a client does before it writes.
func (c *cloud) generation(path, field string) string {
	var body map[string]any
	if err := json.Unmarshal(send(c.h, "GET", path, "").Body.Bytes(), &body); err != nil {
		c.rt.Fatal(err)
	}
	if body[field] == nil {
		return "null"
	}
	return fmt.Sprintf("%.0f", body[field])
}

// change makes one request that may change something.
func (c *cloud) change() {
	p, id := c.provider(), c.consumer()
	providerAt := func() string { return c.generation("/resource_providers/"+p, "generation") }
	switch c.pick("request", 8) {
	case 0:
		body := fmt.Sprintf(`{"name":"n%d","uuid":"%s"}`, c.pick("name", 5), p)
		if parent := c.provider(); c.pick("child", 2) == 0 && parent != p {
			body = fmt.Sprintf(`{"name":"n%d","uuid":"%s","parent_provider_uuid":"%s"}`, c.pick("name", 5), p, parent)
		}
		send(c.h, "POST", "/resource_providers", body)
	case 1:
		send(c.h, "PUT", "/resource_providers/"+p+"/inventories", fmt.Sprintf(
			`{"resource_provider_generation":%s,"inventories":{"VCPU":{"total":%d},"DISK_GB":{"total":%d}}}`,
			providerAt(), 1+c.pick("total", 8), 1+c.pick("disk", 8)))
	case 2:
		send(c.h, "PUT", "/resource_providers/"+p+"/traits", fmt.Sprintf(
			`{"resource_provider_generation":%s,"traits":%s}`, providerAt(),
			[]string{`[]`, `["HW_CPU_X86_VMX"]`, `["MISC_SHARES_VIA_AGGREGATE"]`}[c.pick("traits", 3)],
		))
	case 3:
		send(c.h, "PUT", "/resource_providers/"+p+"/aggregates", fmt.Sprintf(
			`{"resource_provider_generation":%s,"aggregates":%s}`, providerAt(),
			[]string{`[]`, `["` + ledgertest.ID(3, 1).String() + `"]`}[c.pick("aggregates", 2)],
		))
	case 4, 5:
		order := []string{`"VCPU":%d,"DISK_GB":1`, `"DISK_GB":1,"VCPU":%d`}[c.pick("order of classes", 2)]
		send(c.h, "PUT", "/allocations/"+id, fmt.Sprintf(
			`{"allocations":{"%s":{"resources":{`+order+`}}},"project_id":"p%d","user_id":"u",
			"consumer_generation":%s,"consumer_type":"T"}`,
			p, 1+c.pick("amount", 3), c.pick("project", 2), c.generation("/allocations/"+id, "consumer_generation"),
		))
	case 6:
		send(c.h, "DELETE", "/allocations/"+id, "")
	case 7:
		send(c.h, "DELETE", "/resource_providers/"+p, "")
	}
}

// reads are GETs of every kind.
func reads() []string {
	paths := []string{
		"/resource_providers", "/resource_providers?name=n1", "/resource_providers?resources=VCPU:2",
		"/resource_providers?required=HW_CPU_X86_VMX", "/resource_providers?member_of=" + ledgertest.ID(3, 1).String(),
		"/resource_providers?in_tree=" + ledgertest.ID(1, 0).String(), "/traits?associated=true", "/resource_classes",
		"/usages?project_id=p0", "/usages?project_id=p1&user_id=u",
		"/allocation_candidates?resources=VCPU:1,DISK_GB:1",
		"/allocation_candidates?resources1=VCPU:1&resources2=DISK_GB:2&group_policy=isolate",
		"/allocation_candidates?resources=VCPU:3&explain=true&limit=2",
	}
	for i := range byte(4) {
		p := "/resource_providers/" + ledgertest.ID(1, i).String()
		paths = append(
			paths, p, p+"/inventories", p+"/inventories/VCPU", p+"/usages", p+"/allocations", p+"/traits", p+"/aggregates",
			"/allocations/"+ledgertest.ID(2, i).String(),
		)
	}
	return paths
}

// answered is everything in an answer but the request's id.
func answered(h http.Handler, path string) string {
	w := send(h, "GET", path, "")
	body := w.Body.String()
	if w.Code >= 400 {
		body = "" // it names the request
	}
	return fmt.Sprint(w.Code, w.Header().Get(rest.SequenceHeader), body)
}

// TestPast records what every GET answers after each of some random requests, and
// asks again after all of them, by sequence or by time, through the same server
// and through one with rebuilt read models.
func TestPast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := &memlog.Log{}
		l := commandstest.Start(t, t.TempDir(), log)
		defer l.Stop(t)
		c := &cloud{rt: rt, h: handler(l)}
		type answer struct{ path, text string }
		seen := make(map[uint64][]answer)
		times := make(map[uint64]time.Time)
		for range 12 {
			c.change()
			view := l.Views.View()
			_, decided, _, err := view.CommitMark(view.Sequence())
			if err != nil {
				rt.Fatal(err)
			}
			times[view.Sequence()] = time.Unix(0, decided)
			seen[view.Sequence()] = nil
			for _, path := range reads() {
				seen[view.Sequence()] = append(seen[view.Sequence()], answer{path, answered(c.h, path)})
			}
		}
		again := commandstest.Start(t, t.TempDir(), log)
		defer again.Stop(t)
		for server, h := range []http.Handler{c.h, handler(again)} {
			for sequence, answers := range seen {
				moment := fmt.Sprint(sequence)
				if (sequence+uint64(server))%2 == 0 {
					moment = times[sequence].UTC().Format(time.RFC3339Nano)
				}
				for _, a := range answers {
					path := a.path + "?at=" + moment
					if strings.Contains(a.path, "?") {
						path = a.path + "&at=" + moment
					}
					if got := answered(h, path); got != a.text {
						rt.Fatalf("server %d, %s\nthen %s\nnow  %s", server, path, a.text, got)
					}
				}
			}
		}
	})
}

// TestCandidatesAreAccepted allocates every candidate of random worlds, each in
// the same world: none may be rejected.
func TestCandidatesAreAccepted(t *testing.T) {
	tried := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
		defer l.Stop(t)
		c := &cloud{rt: rt, h: handler(l)}
		for range 40 {
			c.change()
		}
		for _, query := range []string{
			"resources=VCPU:1", "resources=VCPU:1,DISK_GB:1", "resources=VCPU:2&required=HW_CPU_X86_VMX",
			"resources1=VCPU:1&resources2=VCPU:2,DISK_GB:1&group_policy=none",
			"resources=DISK_GB:1&resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate",
			"resources=VCPU:1&member_of=" + ledgertest.ID(3, 1).String(),
		} {
			var answer struct {
				Requests []map[string]json.RawMessage `json:"allocation_requests"`
			}
			w := send(c.h, "GET", "/allocation_candidates?"+query, "")
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
				rt.Fatalf("%s: %d %s", query, w.Code, w.Body)
			}
			for _, request := range answer.Requests {
				id := commandstest.NewID().String()
				body := fmt.Sprintf(
					`{"allocations":%s,"mappings":%s,"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
					request["allocations"], request["mappings"],
				)
				if w := send(c.h, "PUT", "/allocations/"+id, body); w.Code != http.StatusNoContent {
					rt.Fatalf("%s: %s was refused: %d %s", query, body, w.Code, w.Body)
				}
				if w := send(c.h, "DELETE", "/allocations/"+id, ""); w.Code != http.StatusNoContent {
					rt.Fatalf("%d %s", w.Code, w.Body)
				}
				tried++
			}
		}
	})
	if tried == 0 {
		t.Error("no candidates were tried")
	}
}
