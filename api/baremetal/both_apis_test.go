package baremetal_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
)

// A node can be taken in two ways: through Ironic's nodes and allocations, and
// through Placement's allocations from the node's provider.

func doorNode(i int) string  { return fmt.Sprintf("11111111-0000-4000-8000-%012d", i) }
func doorOwner(i int) string { return fmt.Sprintf("cccccccc-0000-4000-8000-%012d", i) }

// take takes a node through Placement.
func (w *world) take(owner, node int) int {
	var now struct {
		Generation *uint64 `json:"consumer_generation"`
	}
	if err := json.Unmarshal(w.placement("GET", "/allocations/"+doorOwner(owner), "").Body.Bytes(), &now); err != nil {
		return 0
	}
	generation := "null"
	if now.Generation != nil {
		generation = fmt.Sprint(*now.Generation)
	}
	return w.placement("PUT", "/allocations/"+doorOwner(owner), fmt.Sprintf(
		`{"allocations":{"%s":{"resources":{"CUSTOM_BM":1}}},"project_id":"p","user_id":"u","consumer_generation":%s,"consumer_type":"INSTANCE"}`,
		doorNode(node), generation,
	)).Code
}

func (w *world) nodeProviders(t *testing.T, on bool) *demand.Rejection {
	t.Helper()
	for {
		outcome := w.Submit(t, &commands.SetNodeProviders{On: on, Limit: 2})
		if outcome.Rejection != nil || outcome.Address.Sequence == 0 {
			return outcome.Rejection
		}
	}
}

// doorsAgree checks that every node has one owner at most, that its provider has its class
// and at least its traits, and is reserved exactly while it has no user and may not get one.
func (w *world) doorsAgree(t *testing.T, after string) {
	t.Helper()
	view := w.Views.View()
	holders := make(map[ledger.UUID][]ledger.UUID)
	err := view.Consumers(ledger.NilUUID, func(c *ledger.Consumer) bool {
		for _, a := range c.Allocations {
			holders[a.Provider] = append(holders[a.Provider], c.UUID)
		}
		return true
	})
	ledgertest.OK(t, err)
	classes, err := view.Classes()
	ledgertest.OK(t, err)
	err = view.Nodes(0, func(n *ledger.Node) bool {
		owners := make(map[ledger.UUID]bool)
		for _, id := range append(holders[n.UUID], n.Instance, n.Allocation) {
			owners[id] = true
		}
		delete(owners, ledger.NilUUID)
		p, found, err := view.Provider(n.UUID)
		if err != nil || !found || len(p.Inventories) != 1 {
			t.Fatalf("after %s: node %s: %v, %v", after, n.Name, p, err)
		}
		inv, reserved := p.Inventories[0], int64(0)
		if !n.Free() && len(holders[n.UUID]) == 0 {
			reserved = 1
		}
		used := int64(len(holders[n.UUID]))
		if len(owners) > 1 || inv.Total != 1 || inv.Reserved != reserved || inv.Used != used || used+reserved > 1 ||
			!n.Allocation.IsNil() && used != 1 || classes.Name(inv.Class) != commands.NodeClassName(n.ResourceClass) ||
			slices.ContainsFunc(n.Traits, func(trait string) bool { return !slices.Contains(p.Traits, trait) }) {
			t.Fatalf("after %s: node %+v has owners %v, and inventory %+v", after, n, owners, inv)
		}
		return true
	})
	ledgertest.OK(t, err)
}

// doorStep is one random step through one of the APIs.
func (w *world) doorStep(t *testing.T, draw *rand.Rand) string {
	t.Helper()
	n, owner, name := draw.IntN(4), draw.IntN(4), draw.IntN(3)
	switch draw.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("taking %d for %d: %d", n, owner, w.take(owner, n))
	case 2:
		return fmt.Sprintf("releasing %d: %d", owner, w.placement("DELETE", "/allocations/"+doorOwner(owner), "").Code)
	}
	do := []string{
		fmt.Sprintf(`POST /v1/nodes {"driver":"d","name":"n%d","uuid":"%s","resource_class":"bm"}`, n, doorNode(n)),
		fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"manage"}`, n),
		fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"provide"}`, n),
		fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"active"}`, n),
		fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"adopt"}`, n),
		fmt.Sprintf(`PUT /v1/nodes/n%d/states/provision {"target":"deleted"}`, n),
		fmt.Sprintf(`PUT /v1/nodes/n%d/maintenance {"reason":"r"}`, n),
		fmt.Sprintf(`DELETE /v1/nodes/n%d/maintenance`, n),
		fmt.Sprintf(`PUT /v1/nodes/n%d/traits/CUSTOM_T%d`, n, name),
		fmt.Sprintf(`DELETE /v1/nodes/n%d/traits`, n),
		fmt.Sprintf(`PATCH /v1/nodes/n%d [{"op":"add","path":"/instance_uuid","value":"%s"}]`, n, doorOwner(owner)),
		fmt.Sprintf(`PATCH /v1/nodes/n%d [{"op":"remove","path":"/instance_uuid"}]`, n),
		fmt.Sprintf(`PATCH /v1/nodes/n%d [{"op":"add","path":"/retired","value":"%v"}]`, n, draw.IntN(2) == 0),
		fmt.Sprintf(`DELETE /v1/nodes/n%d`, n),
		fmt.Sprintf(`POST /v1/allocations {"resource_class":"bm","name":"a%d","uuid":"%s"}`, name, doorOwner(owner)),
		fmt.Sprintf(`POST /v1/allocations {"resource_class":"bm","name":"a%d","candidate_nodes":["n%d"]}`, name, n),
		fmt.Sprintf(`POST /v1/allocations {"node":"n%d","name":"a%d"}`, n, name),
		fmt.Sprintf(`DELETE /v1/allocations/a%d`, name),
	}[draw.IntN(18)]
	fields := strings.SplitN(do+" ", " ", 3)
	r := w.send("", "", fields[0], fields[1], strings.TrimSpace(fields[2]))
	if r.Code >= 500 {
		t.Fatalf("%s: %d %s", do, r.Code, r.Body)
	}
	w.settle(t)
	return fmt.Sprint(do, ": ", r.Code)
}

// TestBothDoors uses both APIs at random, and turns node providers off and on;
// while they are off, neither API learns what the other does.
func TestBothDoors(t *testing.T) {
	for seed := range uint64(ledgertest.Cases(6, 2)) {
		w := newWorld(t)
		draw := rand.New(rand.NewPCG(seed, 20))
		for range 3 {
			w.turnOnWhateverItTakes(t)
			for range 120 {
				w.doorsAgree(t, w.doorStep(t, draw))
			}
			if rejection := w.nodeProviders(t, false); rejection != nil {
				t.Fatal(rejection)
			}
			for range 25 {
				w.doorStep(t, draw)
			}
		}
	}
}

// turnOnWhateverItTakes turns node providers on. If that is refused, it first
// releases everything that Placement's clients hold.
func (w *world) turnOnWhateverItTakes(t *testing.T) {
	t.Helper()
	rejection := w.nodeProviders(t, true)
	if rejection != nil {
		for i := range 4 {
			w.placement("DELETE", "/allocations/"+doorOwner(i), "")
		}
		rejection = w.nodeProviders(t, true)
	}
	if rejection != nil {
		t.Fatal(rejection)
	}
	w.doorsAgree(t, "turning on")
}
