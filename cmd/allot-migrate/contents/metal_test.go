package contents_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb/ironicdbtest"
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

// metalWorld is an Ironic with a chassis, a node that an allocation has, and a free one, without a secret.
func metalWorld() *contents.Rows {
	rows := ironicdbtest.Rows()
	rows.Kind, rows.Source, rows.ReadAt = "ironic", "sqlite:x", readAt
	rows.Nodes[0].DriverInfo = ""
	slices.Reverse(rows.NodeTraits)
	return rows
}

// TestMetalWorld: everything arrives as it was.
func TestMetalWorld(t *testing.T) {
	t.Parallel()
	plan, report, err := contents.Make(metalWorld())
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
	first, _, err := contents.Make(world())
	ledgertest.OK(t, err)
	s := fold(t, first)
	head, before := s.Head(), s.ProviderCount()
	second, _, err := contents.Make(metalWorld())
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

// metalOddities are oddities of Ironic's rows.
func metalOddities() []oddity {
	some := contents.Some
	node := func(change func(*contents.NodeRow)) func(*contents.Rows) {
		return func(r *contents.Rows) { change(&r.Nodes[1]) }
	}
	allocation := func(change func(*contents.NodeAllocationRow)) func(*contents.Rows) {
		return func(r *contents.Rows) { change(&r.NodeAllocations[1]) }
	}
	is := func(right func(*ledger.Node) bool) func(*ledger.State) bool {
		return func(s *ledger.State) bool {
			n, ok := s.Node(idle)
			return ok && right(n)
		}
	}
	state := func(want string) func(*ledger.State) bool {
		return is(func(n *ledger.Node) bool { return n.ProvisionState == want })
	}
	lost := func(right func(*ledger.NodeAllocation) bool) func(*ledger.State) bool {
		return func(s *ledger.State) bool {
			a, ok := s.NodeAllocation(failed)
			return ok && right(a)
		}
	}
	same := is(func(*ledger.Node) bool { return true })
	list := []oddity{
		{"metal-uuid-invalid", node(func(n *contents.NodeRow) { n.UUID = "one" }), nil},
		{"metal-uuid-invalid", func(r *contents.Rows) { r.Chassis[0].UUID = "rack" }, nil},
		{"metal-uuid-invalid", allocation(func(a *contents.NodeAllocationRow) { a.UUID = "" }), nil},
		{"metal-uuid-twice", node(func(n *contents.NodeRow) { n.UUID = strings.ToUpper(taken.String()) }), nil},
		{"uuid-spelling", node(func(n *contents.NodeRow) { n.UUID = strings.ReplaceAll(idle.String(), "-", "") }), same},
		{"metal-name-unusable", node(func(n *contents.NodeRow) { n.Name = "node-1" }), is(func(n *ledger.Node) bool { return n.Name == "" })},
		{"metal-name-unusable", node(func(n *contents.NodeRow) { n.Name = "no name" }), same},
		{"metal-name-unusable", node(func(n *contents.NodeRow) { n.Name = "maintenance" }), same},
		{"metal-name-unusable", allocation(func(a *contents.NodeAllocationRow) { a.Name = "a-1" }), same},
		{"document-invalid", node(func(n *contents.NodeRow) { n.Properties = "[1]" }), nil},
		{"document-invalid", node(func(n *contents.NodeRow) { n.Extra = `{"a": "` + strings.Repeat("x", 70_000) + `"}` }), nil},
		{"document-invalid", func(r *contents.Rows) { r.Chassis[0].Extra = "no" }, nil},
		{"document-invalid", allocation(func(a *contents.NodeAllocationRow) { a.Extra = "7" }), nil},
		{"document-invalid", node(func(n *contents.NodeRow) { n.Details = map[string]any{"description": strings.Repeat("x", 70_000)} }), nil},
		{"secret-masked", node(func(n *contents.NodeRow) { n.DriverInfo = `{"ipmi_password": "s3cret"}` }),
			is(func(n *ledger.Node) bool { return n.DriverInfo == `{"ipmi_password":"******"}` })},
		{"node-driver-missing", node(func(n *contents.NodeRow) { n.Driver = "" }), same},
		{"node-state-unsettled", node(func(n *contents.NodeRow) { n.ProvisionState = "clean wait" }), state("manageable")},
		{"node-state-unsettled", node(func(n *contents.NodeRow) { n.ProvisionState = "verifying" }), state("enroll")},
		{"node-state-unsettled", node(func(n *contents.NodeRow) { n.ProvisionState = "" }), state("manageable")},
		{"node-state-unsettled", node(func(n *contents.NodeRow) {
			n.ProvisionState, n.Instance = "deploying", ledgertest.ID(2, 9).String()
		}), state("active")},
		{"node-reference-missing", node(func(n *contents.NodeRow) { n.Chassis = some(9) }), is(func(n *ledger.Node) bool { return n.Chassis() == "" })},
		{"node-reference-missing", node(func(n *contents.NodeRow) { n.Parent = "unknown" }), is(func(n *ledger.Node) bool { return n.Parent() == "" })},
		{"node-reference-missing", node(func(n *contents.NodeRow) { n.Allocation = some(9) }), same},
		{"node-trait-not-standard", func(r *contents.Rows) { r.NodeTraits[0].Trait = "HW_GONE" }, same},
		{"membership-twice", func(r *contents.Rows) { r.NodeTraits[0].Trait = "CUSTOM_GOLD" }, same},
		{"instance-not-uuid", node(func(n *contents.NodeRow) { n.Instance = "vm" }),
			func(s *ledger.State) bool {
				n, _ := s.Node(idle)
				_, runs := s.NodeOfInstance(n.Instance)
				return runs
			}},
		{"instance-twice", node(func(n *contents.NodeRow) { n.Instance = held.String() }), nil},
		{"node-taken-twice", allocation(func(a *contents.NodeAllocationRow) { a.State, a.Node = "active", some(1) }), nil},
		{"node-taken-twice", func(r *contents.Rows) {
			r.Nodes[1].Instance = failed.String()
			r.Nodes[0].Instance, r.Nodes[0].Allocation = "", contents.Optional{}
			r.NodeAllocations = r.NodeAllocations[1:]
			r.NodeAllocations[0].State, r.NodeAllocations[0].Node = "active", some(1)
		}, nil},
		{"allocation-state-unknown", allocation(func(a *contents.NodeAllocationRow) { a.State = "lost" }), nil},
		{"allocation-without-node", allocation(func(a *contents.NodeAllocationRow) { a.State, a.Node = "active", some(9) }), same},
		{"allocation-waits", allocation(func(a *contents.NodeAllocationRow) { a.State = "allocating" }),
			lost(func(a *ledger.NodeAllocation) bool { return a.State == ledger.NodeAllocating })},
		{"candidate-not-uuid", allocation(func(a *contents.NodeAllocationRow) { a.Candidates = []string{"n", idle.String()} }),
			lost(func(a *ledger.NodeAllocation) bool { return slices.Equal(a.CandidateNodes, []ledger.UUID{idle}) })},
		{"with-its-node", func(r *contents.Rows) { r.NodeTraits[0].Node = 9 }, same},
		{"with-its-node", func(r *contents.Rows) { r.Nodes[0].UUID = "gone" }, nil},
		{"not-kept", func(r *contents.Rows) {
			r.Others = []contents.TableCount{{Table: "ports", Rows: 12}, {Table: "bios_settings"}}
		}, same},
		{"text-not-utf8", node(func(n *contents.NodeRow) { n.MaintenanceReason = "a\xff" }), nil},
		{"text-not-utf8", node(func(n *contents.NodeRow) { n.Details = map[string]any{"description": "a\xff"} }), nil},
		{"text-not-utf8", func(r *contents.Rows) { r.Chassis[0].Description = "a\xff" }, nil},
		{"text-not-utf8", func(r *contents.Rows) { r.NodeTraits[0].Trait = "a\xff" }, nil},
		{"text-not-utf8", allocation(func(a *contents.NodeAllocationRow) { a.LastError = "a\xff" }), nil},
		{"time-missing", node(func(n *contents.NodeRow) { n.Created = 0 }), same},
		{"time-in-future", node(func(n *contents.NodeRow) { n.Updated = readAt + 1 }), same},
	}
	for i := range list {
		odd := list[i].odd
		list[i].odd = func(r *contents.Rows) {
			*r = *metalWorld()
			odd(r)
		}
	}
	return list
}
