package commands_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
