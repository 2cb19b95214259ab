package main_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// mustMetal is Must for the bare metal API.
func (s *server) mustMetal(want int, method, path, body string) string {
	s.T.Helper()
	return launchtest.Answer(s.T, want, method, "http://"+s.HTTP+"/baremetal/v1"+path, body, map[string]string{
		"X-OpenStack-Ironic-API-Version": "1.79", "Content-Type": "application/json",
	})
}

// makeNode makes a node that can be allocated.
func (s *server) makeNode(name, class string) {
	s.T.Helper()
	s.mustMetal(
		201, "POST", "/nodes", fmt.Sprintf(`{"driver":"fake-hardware","name":%q,"resource_class":%q}`, name, class),
	)
	s.mustMetal(202, "PUT", "/nodes/"+name+"/states/provision", `{"target":"manage"}`)
	s.mustMetal(202, "PUT", "/nodes/"+name+"/states/provision", `{"target":"provide"}`)
}

// TestBaremetalCommand runs Ironic's own command line client, and checks its
// output.
func TestBaremetalCommand(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import openstackclient, ironicclient").Run(); err != nil {
		t.Skip("skipped: python3-ironicclient is not installed")
	}
	s := launch(t, t.TempDir())
	client := exec.Command("baremetal", "--max-retries", "0", "--os-endpoint", "http://"+s.HTTP+"/baremetal")
	converse(t, client, []said{
		{"enroll", "node create --driver fake-hardware --name n1 --resource-class bm"},
		{"", "node add trait n1 CUSTOM_GOLD HW_CPU_X86_VMX"},
		{"CUSTOM_GOLD", "node trait list n1"},
		{"", "node manage n1 --wait 10"},
		{"", "node provide n1 --wait 10"},
		{"", "node power on n1"},
		{"available", "node list"},
		{"available", "node list --long --resource-class bm --provision-state available --unassociated --no-maintenance"},
		{"power on", "node show n1"},
		{"", "node set n1 --owner p1 --property cpus=4 --extra a=b"},
		{"cpus", "node show n1 --fields properties owner"},
		{"active", "allocation create --resource-class bm --trait CUSTOM_GOLD --candidate-node n1 --name a1 --owner p1 --extra k=v --wait 10"},
		{"a1", "allocation list"},
		{"a1", "allocation list --resource-class bm --state active --node n1 --long"},
		{"a1", "allocation list --limit 1 --sort name:desc --fields uuid name owner"},
		{"CUSTOM_GOLD", "allocation show a1"},
		{"", "allocation set a1 --name a2 --extra x=y"},
		{"y", "allocation show a2 --fields extra"},
		{"", "allocation unset a2 --extra k --extra x"},
		{"allocation_uuid", "node show n1 --fields instance_uuid allocation_uuid uuid name"},
		{"", "allocation delete a2"},
		{"", "node maintenance set n1 --reason broken"},
		{"broken", "node show n1 --fields maintenance_reason"},
		{"", "node maintenance unset n1"},
		{"first", "chassis create --uuid " + aChassis + " --description first --extra row=1"},
		{aChassis, "chassis list"},
		{"row", "chassis list --long"},
		{"first", "chassis list --fields uuid description --limit 1 --sort description:desc"},
		{"first", "chassis show " + aChassis},
		{"row", "chassis show " + aChassis + " --fields extra"},
		{"", "chassis set " + aChassis + " --description second --extra unit=2"},
		{"second", "chassis show " + aChassis},
		{"", "chassis unset " + aChassis + " --extra unit"},
		{"", "node set n1 --chassis-uuid " + aChassis},
		{aChassis, "node show n1 --fields chassis_uuid"},
		{"n1", "node list --chassis " + aChassis},
		{aChassis, "node create --driver fake-hardware --name n2 --chassis-uuid " + aChassis},
		{"", "node delete n2"},
		{"contains nodes", "chassis delete " + aChassis},
		{"", "node unset n1 --chassis-uuid"},
		{"", "chassis delete " + aChassis},
		{"could not be found", "chassis show " + aChassis},
		{"", "node delete n1"},
		{"no available nodes match the resource class bm", "allocation create --resource-class bm --name none --wait 10"},
		{"An allocation with name none already exists", "allocation create --resource-class bm --name none"},
		{"error", "allocation show none"},
		{"", "allocation delete none"},
		{"could not be found", "allocation show none"},
	})
}

// TestGophercloudBaremetal makes every call that gophercloud has for allocations,
// and those for nodes that an allocation needs.
func TestGophercloudBaremetal(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir())
	c, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: "http://" + s.HTTP + "/baremetal/v1"})
	must(t, err)
	c.Microversion = "1.79"
	ctx := t.Context()
	node, err := nodes.Create(ctx, c, nodes.CreateOpts{
		Driver: "ipmi", Name: "n1", ResourceClass: "bm", Properties: map[string]any{"cpus": 4},
		DriverInfo: map[string]any{"ipmi_address": "10.0.0.1", "ipmi_password": "secret"},
	}).Extract()
	if err != nil || node.ProvisionState != string(nodes.Enroll) {
		t.Fatalf("%+v, %v", node, err)
	}
	for _, target := range []nodes.TargetProvisionState{nodes.TargetManage, nodes.TargetProvide} {
		state := nodes.ProvisionStateOpts{Target: target}
		must(t, nodes.ChangeProvisionState(ctx, c, node.UUID, state).ExtractErr())
	}
	if node, err = nodes.Update(ctx, c, "n1", nodes.UpdateOpts{nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/extra", Value: map[string]any{"a": 1}}}).Extract(); err != nil ||
		node.Extra["a"] == nil {
		t.Fatalf("%+v, %v", node, err)
	}
	made, err := allocations.Create(ctx, c, allocations.CreateOpts{
		Name: "a1", ResourceClass: "bm", CandidateNodes: []string{"n1"}, Extra: map[string]string{"k": "v"},
	}).Extract()
	if err != nil || made.State != "allocating" || made.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", made, err)
	}
	ledgertest.WaitFor(t, "an allocation", func() bool {
		if made, err = allocations.Get(ctx, c, made.UUID).Extract(); err != nil {
			t.Fatal(err)
		}
		return made.State != "allocating"
	})
	if made.State != "active" || made.NodeUUID != node.UUID || made.Extra["k"] != "v" {
		t.Errorf("%+v", made)
	}
	pages, err := allocations.List(c, allocations.ListOpts{ResourceClass: "bm", State: "active", Node: "n1"}).AllPages(ctx)
	must(t, err)
	if list, err := allocations.ExtractAllocations(pages); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := nodes.Delete(ctx, c, node.UUID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("a node in use: %v", err)
	}
	if err := allocations.Delete(ctx, c, made.UUID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if _, err := allocations.Get(ctx, c, made.UUID).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("a deleted allocation: %v", err)
	}
}

// sdkScript does what openstacksdk's own functional tests of allocations do.
const sdkScript = `
import sys, openstack
from openstack import exceptions
c = openstack.connection.Connection(auth_type='none', endpoint=sys.argv[1],
    baremetal_endpoint_override=sys.argv[1], region_name='r')
b = c.baremetal
node = b.create_node(driver='fake-hardware', name='n1', resource_class='bm')
b.set_node_provision_state(node, 'manage', wait=True, timeout=10)
b.set_node_power_state(node, 'power off')
b.set_node_provision_state(node, 'provide', wait=True, timeout=10)
a = b.create_allocation(resource_class='bm')
assert a.state == 'allocating' and a.node_id is None and a.last_error is None, a
loaded = b.wait_for_allocation(a, timeout=10)
assert loaded.id == a.id and loaded.state == 'active', loaded
assert loaded.node_id == node.id and loaded.last_error is None, loaded
node = b.get_node(node.id)
assert node.allocation_id == a.id, node
assert [x.id for x in b.allocations(resource_class='bm')] == [a.id]
assert [x.id for x in b.allocations(state='active')] == [a.id]
assert not list(b.allocations(resource_class='other'))
with_fields = b.get_allocation(a.id, fields=['uuid', 'node_uuid'])
assert with_fields.node_id == node.id and with_fields.name is None
bad = b.create_allocation(resource_class='other', name='bad')
try:
    b.wait_for_allocation(bad, timeout=10)
    sys.exit('no failure')
except exceptions.ResourceFailure as e:
    assert 'other' in str(e), e
bad = b.get_allocation('bad')
assert bad.state == 'error' and 'other' in bad.last_error
b.delete_allocation('bad')
a = b.update_allocation(a, name='named', extra={'answer': 42})
assert b.get_allocation('named').extra == {'answer': 42}
a = b.patch_allocation(a, [{'op': 'replace', 'path': '/extra/answer', 'value': 43}, {'op': 'remove', 'path': '/name'}])
assert a.extra == {'answer': 43} and a.name is None, a
b.delete_allocation(a, ignore_missing=False)
for missing in (a.id, '5c9dcd04-2073-49bc-9618-99ae634d8971'):
    for call in (b.get_allocation, lambda i: b.delete_allocation(i, ignore_missing=False)):
        try:
            call(missing)
            sys.exit('found ' + missing)
        except exceptions.NotFoundException:
            pass
assert b.delete_allocation(a.id) is None
rack = b.create_chassis(description='rack', extra={'row': 1})
assert [x.id for x in b.chassis()] == [rack.id] and b.get_chassis(rack.id).extra == {'row': 1}
node = b.update_node(node, chassis_id=rack.id)
rack = b.update_chassis(rack, description='other')
assert b.find_chassis(rack.id).description == 'other'
try:
    b.delete_chassis(rack.id)
    sys.exit('a chassis with a node was deleted')
except exceptions.BadRequestException:
    pass
b.delete_node(node)
b.delete_chassis(rack, ignore_missing=False)
assert b.find_chassis(rack.id) is None
print('good')
`

// TestOpenstackSDK runs openstacksdk, unchanged, against the binary.
func TestOpenstackSDK(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import openstack").Run(); err != nil {
		t.Skip("skipped: python3-openstacksdk is not installed")
	}
	s := launch(t, t.TempDir())
	run := exec.Command("/usr/bin/python3", "-c", sdkScript, "http://"+s.HTTP+"/baremetal")
	run.Env = append(run.Environ(), "HOME="+t.TempDir(), "PYTHONWARNINGS=ignore")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "good") {
		t.Fatalf("%v\n%s", err, out)
	}
}
