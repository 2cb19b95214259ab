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
	converse(t, client, "testdata/baremetal.txt")
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

// TestOpenstackSDK runs openstacksdk, unchanged, against the binary.
func TestOpenstackSDK(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import openstack").Run(); err != nil {
		t.Skip("skipped: python3-openstacksdk is not installed")
	}
	s := launch(t, t.TempDir())
	run := exec.Command("/usr/bin/python3", "testdata/api/sdk_session.py", "http://"+s.HTTP+"/baremetal")
	run.Env = append(run.Environ(), "HOME="+t.TempDir(), "PYTHONWARNINGS=ignore")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "good") {
		t.Fatalf("%v\n%s", err, out)
	}
}
