package commands_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// TestNodesAreInChassisThatAreThere: whatever happens to chassis and nodes, a
// node is in an existing chassis, or in none.
func TestNodesAreInChassisThatAreThere(t *testing.T) {
	tried := make(map[string]int)
	missing := func() (list []string) {
		for _, want := range []string{
			"CreateChassis", "UpdateChassis", "DeleteChassis", "CreateChassis rejected: chassis_exists",
			"UpdateChassis rejected: chassis_not_found", "DeleteChassis rejected: chassis_not_empty",
			"CreateNode rejected: chassis_unknown", "UpdateNode rejected: chassis_unknown",
		} {
			if tried[want] == 0 {
				list = append(list, want)
			}
		}
		return list
	}
	// Some outcomes are rare: a hundred runs may miss one, but not twenty times a
	// hundred.
	for rounds := 0; rounds == 0 || len(missing()) > 0 && rounds < 20; rounds++ {
		rapid.Check(t, func(rt *rapid.T) { changeChassis(rt, tried) })
	}
	if list := missing(); len(list) > 0 {
		t.Errorf("%q were never tried: %v", list, tried)
	}
}

// changeChassis carries out random commands and counts what came of them.
func changeChassis(rt *rapid.T, tried map[string]int) {
	s := ledger.NewState()
	apply := func(c commands.Command) {
		if c.Check() != nil {
			return
		}
		events, rejection := c.Decide(s)
		if rejection != nil {
			tried[commands.NameOf(c)+" rejected: "+string(rejection.Code)]++
			return
		}
		tried[commands.NameOf(c)]++
		s.Begin()
		if err := s.Apply(s.Head().Sequence+1, &ledger.Record{Time: 1, Events: events}); err != nil {
			rt.Fatal(err)
		}
	}
	for range rapid.IntRange(1, 40).Draw(rt, "commands") {
		apply(commandstest.RandomChassisCommand(rt))
		s.Nodes(func(n *ledger.Node) bool {
			if n.Chassis() == "" {
				return true
			}
			id, err := ledger.ParseUUID(n.Chassis())
			if err != nil {
				rt.Fatal(err)
			}
			if _, exists := s.Chassis(id); !exists {
				rt.Fatalf("node %s is in chassis %s, which is not there", n.UUID, id)
			}
			return true
		})
	}
}

// TestDanglingChassis: in logs from before Allot had chassis, nodes may name
// missing ones. Such a node can change and leave its chassis. If a chassis of
// that uuid is made, the node is in it.
func TestDanglingChassis(t *testing.T) {
	node, rack, driver := commandstest.NewID(), commandstest.NewID(), "fake"
	s := ledger.NewState()
	created := ledger.NodeCreated{Node: node, ProvisionState: "enroll", Description: ledger.NodeDescription{
		Driver: driver, Details: ledger.Document(`{"chassis_uuid":"` + rack.String() + `"}`),
	}}
	s.Begin()
	if err := s.Apply(1, &ledger.Record{Time: 1, Events: []ledger.Event{created}}); err != nil {
		t.Fatal(err)
	}
	for _, op := range []commands.PatchOperation{
		{Op: "add", Path: "/extra/a", Value: "1"}, {Op: "remove", Path: "/chassis_uuid"},
		{Op: "replace", Path: "/chassis_uuid", Value: commands.PatchValue(`"` + rack.String() + `"`)},
	} {
		patch := []commands.PatchOperation{op}
		if _, rejection := (&commands.UpdateNode{Node: node, Patch: patch}).Decide(s); rejection != nil {
			t.Errorf("%s %s: %s", op.Op, op.Path, rejection)
		}
	}
	if _, rejection := (&commands.DeleteChassis{Chassis: rack}).Decide(s); rejection == nil ||
		rejection.Code != demand.CodeChassisNotFound {
		t.Errorf("a chassis that is only named: %v", rejection)
	}
	events, rejection := (&commands.CreateChassis{Chassis: rack}).Decide(s)
	if rejection != nil {
		t.Fatal(rejection)
	}
	s.Begin()
	if err := s.Apply(2, &ledger.Record{Time: 2, Events: events}); err != nil {
		t.Fatal(err)
	}
	if _, rejection := (&commands.DeleteChassis{Chassis: rack}).Decide(s); rejection == nil ||
		rejection.Code != demand.CodeChassisNotEmpty {
		t.Errorf("a chassis with a node: %v", rejection)
	}
}
