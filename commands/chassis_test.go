package commands_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestDanglingChassis: in logs from before Allot had chassis, nodes may name
// missing ones. Such a node can change and leave its chassis. If a chassis of
// that uuid is made, the node is in it.
func TestDanglingChassis(t *testing.T) {
	w := &world{Scratch: commands.NewScratch(ledger.NewState()), t: t}
	created := ledger.NodeCreated{Node: id("enrolled"), ProvisionState: "enroll", Description: ledger.NodeDescription{
		Driver: "fake", Details: ledger.Document(`{"chassis_uuid":"` + id("fullChassis").String() + `"}`),
	}}
	w.State().Begin()
	ledgertest.OK(t, w.State().Apply(1, &ledger.Record{Time: 1, Events: []ledger.Event{created}}))
	of := func(patch string) string { return `UpdateNode {"node":"$enrolled","patch":[` + patch + `]}` }
	for text, code := range map[string]demand.Code{
		of(`{"op":"add","path":"/extra/a","value":1}`):                       "",
		of(`{"op":"remove","path":"/chassis_uuid"}`):                         "",
		of(`{"op":"replace","path":"/chassis_uuid","value":"$fullChassis"}`): "",
		`DeleteChassis {"chassis":"$fullChassis"}`:                           demand.CodeChassisNotFound,
	} {
		if got := w.decide(read(t, text)); got.code != code {
			t.Errorf("%s: %s", text, got)
		}
	}
	w.accept(read(t, `CreateChassis {"chassis":"$fullChassis"}`))
	got := w.decide(read(t, `DeleteChassis {"chassis":"$fullChassis"}`))
	if got.code != demand.CodeChassisNotEmpty {
		t.Errorf("a chassis with a node: %s", got)
	}
}
