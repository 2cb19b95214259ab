package baremetal_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
)

// A node can be taken in two ways: through Ironic's nodes and allocations, and
// through Placement's allocations from the node's provider.

func doorNode(i int) string  { return fmt.Sprintf("11111111-0000-4000-8000-%012d", i) }
func doorOwner(i int) string { return fmt.Sprintf("cccccccc-0000-4000-8000-%012d", i) }
func setInstance(i int) string {
	return fmt.Sprintf(`[{"op":"add","path":"/instance_uuid","value":"%s"}]`, doorOwner(i))
}

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
	if err != nil {
		t.Fatal(err)
	}
	classes, err := view.Classes()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
}

// TestInstanceReservesNode: Placement does not give away a node with an instance,
// except to the consumer that is the instance. An owner that is removed through
// one API remains if the other API still has it.
func TestInstanceReservesNode(t *testing.T) {
	w := newWorld(t)
	if rejection := w.nodeProviders(t, true); rejection != nil {
		t.Fatal(rejection)
	}
	w.play(t, all(node(doorNode(1), "n1", "bm"), node(doorNode(2), "n2", "bm")))
	expect := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
		w.doorsAgree(t, what)
	}
	ironic := func(do string, want int) {
		t.Helper()
		w.play(t, []step{{do: do, want: want}, {do: settle}})
		w.doorsAgree(t, do)
	}
	ironic("PATCH /v1/nodes/n1 "+setInstance(1), 200)
	if r := w.placement("GET", "/allocation_candidates?resources=CUSTOM_BM:1", ""); strings.Contains(
		r.Body.String(), doorNode(1),
	) {
		t.Errorf("a node with an instance is offered: %s", r.Body)
	}
	expect("another consumer takes the node of an instance", w.take(2, 1), http.StatusConflict)
	expect("the instance takes its own node", w.take(1, 1), http.StatusNoContent)
	expect(
		"Placement forgets the instance", w.placement("DELETE", "/allocations/"+doorOwner(1), "").Code,
		http.StatusNoContent,
	)
	expect("another consumer takes it then", w.take(2, 1), http.StatusConflict)
	ironic(`POST /v1/allocations {"resource_class":"bm","name":"a","candidate_nodes":["n1"]}`, 201)
	w.play(t, []step{{do: "GET /v1/allocations/a", want: 200, has: `"state":"error"`}})

	expect("a consumer takes the other node", w.take(2, 2), http.StatusNoContent)
	ironic("PATCH /v1/nodes/n2 "+setInstance(3), 409)
	ironic("PATCH /v1/nodes/n2 "+setInstance(2), 200)
	expect("it moves to a consumer that does not run there", w.placement("POST", "/allocations", fmt.Sprintf(
		`{"%s":{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":%d,"consumer_type":"INSTANCE"},
		"%s":{"allocations":{"%s":{"resources":{"CUSTOM_BM":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"MIGRATION"}}`,
		doorOwner(2), w.Views.Checkpoint().Sequence-1, doorOwner(4), doorNode(2))).Code, http.StatusConflict)
	ironic(`PUT /v1/nodes/n2/maintenance {"reason":"r"}`, 202)
	expect(
		"released while in maintenance", w.placement("DELETE", "/allocations/"+doorOwner(2), "").Code, http.StatusNoContent,
	)
	ironic(`PATCH /v1/nodes/n2 [{"op":"remove","path":"/instance_uuid"}]`, 200)
	for _, path := range []string{"/resource_providers/" + doorNode(1), "/resource_providers/" + doorNode(2) + "/inventories"} {
		expect("DELETE "+path, w.placement("DELETE", path, "").Code, http.StatusConflict)
	}
	ironic("DELETE /v1/nodes/n2/maintenance", 202)
	expect("it is free again", w.take(4, 2), http.StatusNoContent)
}

// TestReservationOfNodeEnds: when a reservation is cancelled, a node that is not
// free stays reserved.
func TestReservationOfNodeEnds(t *testing.T) {
	w := newWorld(t)
	if rejection := w.nodeProviders(t, true); rejection != nil {
		t.Fatal(rejection)
	}
	w.play(t, node(doorNode(1), "n1", "bm"))
	id := mustUUID(t, doorOwner(1))
	w.Accept(t, &commands.Reserve{Seconds: 1000, Allocations: commandsAllocate(id, mustUUID(t, doorNode(1)))})
	w.play(t, []step{{do: `PUT /v1/nodes/n1/maintenance {"reason":"r"}`, want: 202}})
	w.doorsAgree(t, "maintenance")
	w.Accept(t, &commands.CancelReservation{Consumer: id})
	w.doorsAgree(t, "the end of the reservation")
}

func mustUUID(t *testing.T, text string) ledger.UUID {
	t.Helper()
	id, err := ledger.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func commandsAllocate(consumer, provider ledger.UUID) []commands.ConsumerAllocations {
	return []commands.ConsumerAllocations{{
		Consumer: consumer, Project: "p", User: "u",
		Resources: []commands.ProviderAllocation{{Provider: provider, Class: "CUSTOM_BM", Amount: 1}},
	}}
}

// TestNodeProvidersTurnedOnAgain: conflicts from the time without node providers
// are found: nodes with two owners are listed and refused, and consumers of ended
// allocations are removed.
func TestNodeProvidersTurnedOnAgain(t *testing.T) {
	w := newWorld(t)
	turn := func(on bool, listed ...string) {
		t.Helper()
		before := w.Views.Checkpoint()
		rejection := w.nodeProviders(t, on)
		if (rejection == nil) != (listed == nil) {
			t.Fatalf("turned to %v: %v", on, rejection)
		}
		if rejection != nil && w.Views.Checkpoint() != before {
			t.Fatal("what is refused changed something")
		}
		for _, part := range listed {
			if !strings.Contains(rejection.Message, part) {
				t.Fatalf("%s lacks %s", rejection.Message, part)
			}
		}
		if on && rejection == nil {
			w.doorsAgree(t, "turning on")
		}
	}
	turn(true)
	w.play(t, all(node(doorNode(1), "n1", "bm"), node(doorNode(2), "n2", "bm"), node(doorNode(3), "n3", "bm"), []step{
		{
			do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm","candidate_nodes":["n1"]}`, want: 201,
		}, {do: settle},
	}))
	turn(false)
	w.play(t, []step{
		{do: "DELETE /v1/allocations/" + a1, want: 204},
		{
			do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm","candidate_nodes":["n2"]}`, want: 201,
		}, {do: settle},
		{do: "PATCH /v1/nodes/n3 " + setInstance(3), want: 200},
	})
	if code := w.take(4, 3); code != http.StatusNoContent {
		t.Fatal(code)
	}
	turn(true, "1 nodes", doorNode(3), doorOwner(3), doorOwner(4))
	if code := w.take(5, 2); code != http.StatusNoContent {
		t.Fatal(code)
	}
	turn(true, "2 nodes", doorNode(2), a1, doorOwner(5))
	for _, i := range []int{4, 5} {
		if r := w.placement("DELETE", "/allocations/"+doorOwner(i), ""); r.Code != http.StatusNoContent {
			t.Fatal(r.Code)
		}
	}
	turn(true)
	if r := w.placement("GET", "/allocations/"+a1, ""); !strings.Contains(r.Body.String(), doorNode(2)) ||
		strings.Contains(r.Body.String(), doorNode(1)) {
		t.Errorf("the allocation's consumer is somewhere else: %s", r.Body)
	}
	if code := w.take(6, 1); code != http.StatusNoContent {
		t.Errorf("the node that was given back cannot be taken: %d", code)
	}
}

// TestOneHolderIsCountedOnce: a consumer that holds two classes of a node's
// provider, and something else between them, counts as one owner.
func TestOneHolderIsCountedOnce(t *testing.T) {
	w := newWorld(t)
	if rejection := w.nodeProviders(t, true); rejection != nil {
		t.Fatal(rejection)
	}
	w.play(t, node(doorNode(1), "n1", "bm"))
	if rejection := w.nodeProviders(t, false); rejection != nil {
		t.Fatal(rejection)
	}
	own, other := mustUUID(t, doorNode(1)), w.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 1})
	w.Accept(t, &commands.CreateInventory{Provider: own, Inventory: commands.Inventory{Class: "VCPU", Total: 1}})
	w.Accept(t, &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
		Consumer: mustUUID(t, doorOwner(1)), Project: "p", User: "u", Resources: []commands.ProviderAllocation{
			{Provider: own, Class: "CUSTOM_BM", Amount: 1}, {Provider: other, Class: "VCPU", Amount: 1},
			{Provider: own, Class: "VCPU", Amount: 1},
		},
	}}})
	rejection := w.nodeProviders(t, true)
	if rejection == nil || len(rejection.Facts.Names) != 1 || !strings.Contains(rejection.Message, "holds 1 VCPU of node") {
		t.Errorf("%v", rejection)
	}
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
		fmt.Sprintf(`PATCH /v1/nodes/n%d %s`, n, setInstance(owner)),
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
	for seed := range uint64(6) {
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
