package placement_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestCandidatesAreAccepted allocates every candidate of random worlds, each in
// the same world: none may be rejected.
func TestCandidatesAreAccepted(t *testing.T) {
	tried := make(map[string]int)
	queries := []string{
		"resources=VCPU:1", "resources=VCPU:1,CUSTOM_B:1", "resources=VCPU:2&required=HW_CPU_X86_VMX",
		"resources1=VCPU:1&resources2=VCPU:2,CUSTOM_B:1&group_policy=none",
		"resources=CUSTOM_B:1&resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate",
		"resources=VCPU:1&member_of=" + ledgertest.ID(3, 1).String(),
	}
	rapid.Check(t, func(rt *rapid.T) {
		log := &memlog.Log{}
		ledgertest.AppendCommits(t, log, commandstest.RandomCommits(rt, 6))
		l := commandstest.Start(t, t.TempDir(), log)
		defer l.Remove(t)
		for i := range 2 { // if they still are
			id := commandstest.SomeProvider(i)
			l.Submit(t, &commands.ReplaceProviderTraits{Provider: id, Traits: []string{"HW_CPU_X86_VMX"}})
			l.Submit(t, &commands.ReplaceProviderAggregates{Provider: id, Aggregates: []ledger.UUID{ledgertest.ID(3, 1)}})
			child, cpu := ledger.UUID{byte(i + 1)}, commands.Inventory{Class: "VCPU", Total: 2}
			l.Submit(t, &commands.CreateProvider{Provider: child, Name: child.String(), Parent: commandstest.SomeProvider(0)})
			l.Submit(t, &commands.ReplaceInventories{Provider: child, Inventories: []commands.Inventory{cpu}})
			l.Submit(t, &commands.CreateInventory{Provider: child, Inventory: commands.Inventory{Class: "CUSTOM_B", Total: 1}})
		}
		h := handler(l)
		for _, query := range queries {
			var answer struct {
				Requests []map[string]json.RawMessage `json:"allocation_requests"`
			}
			w := send(h, "GET", "/allocation_candidates?"+query, "")
			if w.Code == http.StatusBadRequest && strings.Contains(w.Body.String(), "CUSTOM_") {
				continue // there is no such class or trait
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
				rt.Fatalf("%s: %d %s", query, w.Code, w.Body)
			}
			for _, request := range answer.Requests {
				id := commandstest.NewID().String()
				body := fmt.Sprintf(
					`{"allocations":%s,"mappings":%s,"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
					request["allocations"], request["mappings"],
				)
				for _, method := range []string{"PUT", "DELETE"} {
					if w := send(h, method, "/allocations/"+id, body); w.Code != http.StatusNoContent {
						rt.Fatalf("%s: %s %s was refused: %d %s", query, method, body, w.Code, w.Body)
					}
				}
				tried[query]++
			}
		}
	})
	t.Log(tried)
	for _, query := range queries {
		if tried[query] == 0 && !ledgertest.Raced {
			t.Errorf("no candidates of %s were tried", query)
		}
	}
}
