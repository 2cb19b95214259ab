package audit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestCountersAreTold: a provider's history has its counters and draws, and a what-if what would be left.
func TestCountersAreTold(t *testing.T) {
	t.Parallel()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	card, slice := commandstest.NewID(), commandstest.NewID()
	l.Accept(t, &commands.CreateProvider{Provider: card, Name: "card"})
	l.Accept(t, &commands.CreateProvider{Provider: slice, Name: "slice", Parent: card})
	l.Accept(t, &commands.ReplaceInventories{Provider: slice, Inventories: []commands.Inventory{{Class: "VGPU", Total: 7}}})
	l.Accept(t, &commands.ReplaceProviderCounters{Provider: card, Counters: []ledger.Counter{{Name: "SLICE", Total: 7}}})
	l.Accept(t, &commands.ReplaceProviderCounters{
		Provider: slice, Draws: []ledger.DrawRecord{{Class: "VGPU", Counter: "SLICE", Amount: 2}},
	})
	q := ask(t, l, nil)
	for id, has := range map[ledger.UUID]string{
		card: `"counters":[{"name":"SLICE","total":7}]`, slice: `"draws":[{"amount":2,"class":"VGPU","counter":"SLICE"}]`,
	} {
		var answer map[string]any
		q.get(t, 200, fmt.Sprintf("/audit/history?provider=%s", id), &answer)
		if text := textOf(t, answer); !strings.Contains(text, has) {
			t.Errorf("no %s in %s", has, text)
		}
	}
	var would map[string]any
	q.post(t, 200, "/audit/what-if", fmt.Sprintf(`{"steps":[{"command":"AllocateForConsumers","body":{"allocations":[{
		"consumer":%q,"project":"p","user":"u","generation":null,"resources":[{"provider":%q,"class":"VGPU","amount":3}]}]}}],
		"questions":[{"query":"Provider","body":{"provider":%q}}]}`, commandstest.NewID(), slice, card), &would)
	if text := textOf(t, would); !strings.Contains(text, `"left":1`) {
		t.Errorf("not 1 slice would be left: %s", text)
	}
}

func textOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
