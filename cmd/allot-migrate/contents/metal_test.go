package contents_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb/ironicdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

var (
	rack, taken, idle = parsed(ironicdbtest.Rack), parsed(ironicdbtest.Taken), parsed(ironicdbtest.Idle)
	held, failed      = parsed(ironicdbtest.Held), parsed(ironicdbtest.Failed)
)

func parsed(text string) ledger.UUID {
	id, err := ledger.ParseUUID(text)
	if err != nil {
		panic(err)
	}
	return id
}

// metalWorld is an Ironic with a chassis, a node that an allocation has, and a free one, without a
// secret, changed by statements.
func metalWorld(t *testing.T, statements ...string) *contents.Rows {
	t.Helper()
	changed := append([]string{"UPDATE nodes SET driver_info = NULL", "DELETE FROM ports"}, statements...)
	db, err := placementdb.Parse("sqlite:" + ironicdbtest.SQLite(t, changed...))
	ledgertest.OK(t, err)
	rows, err := ironicdb.Read(t.Context(), db, nil)
	ledgertest.OK(t, err)
	rows.ReadAt = readAt
	slices.Reverse(rows.NodeTraits)
	return rows
}

// TestMetalWorld: everything arrives as it was.
func TestMetalWorld(t *testing.T) {
	t.Parallel()
	plan, report, err := contents.Make(metalWorld(t))
	if err != nil || plan == nil || len(report.Findings) > 0 {
		t.Fatal(err, report)
	}
	if got := report.Summary(); got != "7 rows, 7 imported, 0 mended by rule, 0 left out" {
		t.Error(got)
	}
	s := fold(t, plan)
	n, _ := s.Node(taken)
	want := &ledger.Node{
		UUID: taken, Number: 2, NodeDescription: ledger.NodeDescription{
			Name: "node-1", Driver: "ipmi", ResourceClass: "baremetal", Owner: "p", Lessee: "q", Properties: `{"cpus":4}`,
			InstanceInfo: `{"capabilities":"x"}`,
			Details: ledger.Document(`{"automated_clean":false,"boot_interface":"ipxe","chassis_uuid":"` + ironicdbtest.Rack +
				`","conductor_group":"east","description":"a node","network_data":{"links":[1]},"retired":true}`),
		},
		Instance: held, Allocation: held, ProvisionState: "active", PowerState: "power on", Maintenance: true, MaintenanceReason: "fan",
		Traits: []string{"CUSTOM_GOLD", "HW_CPU_X86_VMX"}, CreatedAt: at("2024-01-02T00:00:00Z"),
		UpdatedAt: at("2024-02-01T10:11:12Z"), ProvisionUpdatedAt: at("2024-01-03T00:00:00Z"),
	}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Error(diff)
	}
	a, _ := s.NodeAllocation(held)
	wantHeld := &ledger.NodeAllocation{
		UUID: held, Number: 4, Name: "a-1", ResourceClass: "baremetal", Owner: "p", Traits: []string{"CUSTOM_GOLD"},
		CandidateNodes: []ledger.UUID{taken}, Extra: `{"k":"v"}`, State: ledger.NodeAllocationActive, Node: taken,
		CreatedAt: at("2024-01-03T00:00:00Z"), UpdatedAt: at("2024-01-03T00:00:01Z"),
	}
	if diff := cmp.Diff(wantHeld, a); diff != "" {
		t.Error(diff)
	}
	free, _ := s.Node(idle)
	lost, _ := s.NodeAllocation(failed)
	c, _ := s.Chassis(rack)
	if !free.Free() || free.UpdatedAt != 0 || lost.State != ledger.NodeAllocationError || lost.LastError != "no node" ||
		c.Description != "rack" || c.Extra != `{"row":4}` || c.CreatedAt != made.Created {
		t.Errorf("%+v %+v %+v", free, lost, c)
	}
}

// TestAddToLedger: what one import made stays, and another adds to it.
func TestAddToLedger(t *testing.T) {
	t.Parallel()
	first, _, err := contents.Make(world(t))
	ledgertest.OK(t, err)
	s := fold(t, first)
	head, before := s.Head(), s.ProviderCount()
	second, _, err := contents.Make(metalWorld(t))
	ledgertest.OK(t, err)
	id := byte(0)
	begin := contents.Begin{NewID: func() ledger.UUID { id++; return ledgertest.ID(7, id) }, Time: readAt, Actor: "test", Limit: 8 << 20}
	var commits []*ledger.Commit
	err = second.Add(begin, s, func(e ledger.Entry) error {
		commit, err := ledger.DecodeCommit(e.Data)
		commits = append(commits, commit)
		return err
	})
	if err != nil || len(commits) != 1 || commits[0].Sequence != head.Sequence+1 || commits[0].Prev != head.Digest {
		t.Fatalf("%v: %d commits after %v", err, len(commits), head)
	}
	if n, ok := s.Node(taken); !ok || n.Allocation != held || s.ProviderCount() != before ||
		s.Head() != commits[0].Head() {
		t.Errorf("%+v, %d providers", n, s.ProviderCount())
	}
	for i, r := range commits[0].Records {
		if (r.Cause == nil) != (i == 0) || i > 0 && *r.Cause != (ledger.Address{Sequence: head.Sequence + 1}) {
			t.Errorf("record %d has the cause %v", i, r.Cause)
		}
	}
}
