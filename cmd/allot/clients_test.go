package main_test

import (
	"context"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceclasses"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/traits"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/usages"

	"github.com/allot-project/allot/api/auth/keystonetest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// cloud runs the server behind a Keystone. It returns a client such as nova's,
// and one of a user without a role.
func cloud(t *testing.T) (nova, roleless *gophercloud.ServiceClient) {
	t.Helper()
	keystone := keystonetest.Start(t,
		keystoneAllot, keystonetest.User{Name: "nova", Password: "n", ID: "u-nova", Project: "service", Roles: []string{"service"}},
		keystonetest.User{Name: "joe", Password: "j", ID: "u-joe", Project: "p-joe", Roles: []string{"reader"}},
	)
	s := launch(t, t.TempDir(), "--keystone-url", keystone.URL)
	keystone.AddEndpoint("placement", "http://"+s.HTTP+"/placement")
	login := func(name, password string) *gophercloud.ServiceClient {
		provider, err := openstack.AuthenticatedClient(context.Background(), gophercloud.AuthOptions{
			IdentityEndpoint: keystone.URL, Username: name, Password: password, DomainName: "Default",
			Scope: &gophercloud.AuthScope{ProjectName: "service", DomainName: "Default"},
		})
		must(t, err)
		client, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{Region: "RegionOne"})
		must(t, err)
		client.Microversion = "1.39"
		return client
	}
	return login("nova", "n"), login("joe", "j")
}

// TestGophercloud makes every call that gophercloud has for Placement, with a
// token that a Keystone issued and endpoints from its catalog.
func TestGophercloud(t *testing.T) {
	t.Parallel()
	c, roleless := cloud(t)
	ctx := t.Context()
	_, err := resourceproviders.List(roleless, nil).AllPages(ctx)
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("a user without a role: %v", err)
	}
	must(t, usages.Get(ctx, roleless, usages.GetOpts{ProjectID: "p-joe"}).Err)

	must(t, resourceclasses.Create(ctx, c, resourceclasses.CreateOpts{Name: "CUSTOM_GPU"}).Err)
	must(t, resourceclasses.Update(ctx, c, "CUSTOM_FPGA").Err, resourceclasses.Get(ctx, c, "CUSTOM_GPU").Err)
	pages, err := resourceclasses.List(c).AllPages(ctx)
	must(t, err)
	if classes, err := resourceclasses.ExtractResourceClasses(pages); err != nil || len(classes) < 3 {
		t.Errorf("classes: %v, %v", classes, err)
	}
	must(t, resourceclasses.Delete(ctx, c, "CUSTOM_FPGA").Err)

	must(t, traits.Create(ctx, c, "CUSTOM_GOLD").Err, traits.Get(ctx, c, "CUSTOM_GOLD").Err)
	pages, err = traits.List(c, traits.ListOpts{Name: "startswith:CUSTOM"}).AllPages(ctx)
	must(t, err)
	if names, err := traits.ExtractTraits(pages); err != nil || len(names) != 1 {
		t.Errorf("traits: %v, %v", names, err)
	}

	root, err := resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "root"}).Extract()
	must(t, err)
	below := resourceproviders.CreateOpts{Name: "child", UUID: uuid.NewString(), ParentProviderUUID: root.UUID}
	child, err := resourceproviders.Create(ctx, c, below).Extract()
	must(t, err)
	name := "kid"
	renamed := resourceproviders.UpdateOpts{Name: &name, ParentProviderUUID: &root.UUID}
	must(t, resourceproviders.Update(ctx, c, child.UUID, renamed).Err, resourceproviders.Get(ctx, c, child.UUID).Err)
	pages, err = resourceproviders.List(c, resourceproviders.ListOpts{InTree: root.UUID}).AllPages(ctx)
	must(t, err)
	if list, err := resourceproviders.ExtractResourceProviders(pages); err != nil || len(list) != 2 {
		t.Errorf("providers: %v, %v", list, err)
	}
	must(t, resourceproviders.UpdateInventories(ctx, c, root.UUID, resourceproviders.UpdateInventoriesOpts{
		Inventories: map[string]resourceproviders.Inventory{
			"VCPU":       {Total: 16, MinUnit: 1, MaxUnit: 16, StepSize: 1, AllocationRatio: 4},
			"CUSTOM_GPU": {Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1},
		},
	}).Err)
	must(t, resourceproviders.UpdateInventory(ctx, c, root.UUID, "VCPU", resourceproviders.UpdateInventoryOpts{
		ResourceProviderGeneration: 1, Inventory: resourceproviders.Inventory{
			Total: 32, MinUnit: 1, MaxUnit: 32, StepSize: 1, AllocationRatio: 4,
		},
	}).Err)
	must(t, resourceproviders.GetInventories(ctx, c, root.UUID).Err)
	must(t, resourceproviders.GetInventory(ctx, c, root.UUID, "VCPU").Err)
	must(t, resourceproviders.DeleteInventory(ctx, c, root.UUID, "CUSTOM_GPU").Err)
	gold := resourceproviders.UpdateTraitsOpts{ResourceProviderGeneration: 3, Traits: []string{"CUSTOM_GOLD"}}
	must(t, resourceproviders.UpdateTraits(ctx, c, root.UUID, gold).Err)
	must(t, resourceproviders.GetTraits(ctx, c, root.UUID).Err)
	generation := 4
	must(t, resourceproviders.UpdateAggregates(ctx, c, root.UUID, resourceproviders.UpdateAggregatesOpts{
		ResourceProviderGeneration: &generation, Aggregates: []string{uuid.NewString()},
	}).Err)
	must(t, resourceproviders.GetAggregates(ctx, c, root.UUID).Err)

	wanted := allocationcandidates.ListOpts{Resources: "VCPU:2", Required: []string{"CUSTOM_GOLD"}, Limit: 5}
	pages, err = allocationcandidates.List(c, wanted).AllPages(ctx)
	must(t, err)
	found, err := allocationcandidates.ExtractAllocationCandidates(pages)
	if err != nil || len(found.AllocationRequests) != 1 {
		t.Errorf("candidates: %+v, %v", found, err)
	}
	consumer, other := uuid.NewString(), uuid.NewString()
	want := allocations.UpdateOpts{
		Allocations: map[string]allocations.ProviderAllocationsOpts{root.UUID: {Resources: map[string]int{"VCPU": 2}}},
		ProjectID:   "p", UserID: "u", ConsumerType: "INSTANCE",
	}
	must(t, allocations.Update(ctx, c, consumer, want).Err)
	got, err := allocations.Get(ctx, c, consumer).Extract()
	must(t, err)
	if err := allocations.Update(ctx, c, consumer, want).Err; !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("allocate as if new: %v", err)
	}
	want.ConsumerGeneration = got.ConsumerGeneration
	must(t, allocations.Update(ctx, c, consumer, want).Err)
	want.ConsumerGeneration = nil
	must(t, allocations.Manage(ctx, c, allocations.ManageOpts{other: want}).Err)
	must(t, resourceproviders.GetUsages(ctx, c, root.UUID).Err)
	must(t, resourceproviders.GetAllocations(ctx, c, root.UUID).Err)
	must(t, usages.Get(ctx, c, usages.GetOpts{ProjectID: "p", ConsumerType: "INSTANCE"}).Err)
	must(t, allocations.Delete(ctx, c, consumer).Err, allocations.Delete(ctx, c, other).Err)

	must(t, resourceproviders.DeleteTraits(ctx, c, root.UUID).Err, traits.Delete(ctx, c, "CUSTOM_GOLD").Err)
	must(t, resourceproviders.DeleteInventories(ctx, c, root.UUID).Err)
	must(t, resourceproviders.Delete(ctx, c, child.UUID).Err, resourceproviders.Delete(ctx, c, root.UUID).Err)
}

// suggestions are what a client that does not know a command names instead.
var suggestions = regexp.MustCompile(`(?m)^  .*\n`)

// converse has an interactive client carry out the commands of a file, and compares what it prints for
// each. So it loads its libraries once, which takes longer than all that it is asked.
func converse(t *testing.T, client *exec.Cmd, path string) {
	t.Helper()
	const end = "end-of-answer" // no command, which the client says
	commands := ledgertest.Asked(path)
	client.Stdin = strings.NewReader(strings.Join(commands, "\n"+end+"\n") + "\n" + end + "\n")
	client.Env = append(client.Environ(), "PYTHONUNBUFFERED=1", "PYTHONWARNINGS=ignore", "HOME="+t.TempDir())
	out, err := client.CombinedOutput()
	answers := strings.Split(suggestions.ReplaceAllString(string(out), ""), "'"+end+"' is not ")
	if err != nil || len(answers) != len(commands)+1 {
		t.Fatalf("%v: %d answers to %d commands:\n%s", err, len(answers)-1, len(commands), out)
	}
	ledgertest.Answers(t, path, func(_, want string) string {
		answer := answers[0]
		answers = answers[1:]
		switch refused := strings.Contains(answer, "(HTTP "); {
		case refused && !strings.Contains(want, " "):
			return answer
		case want == "":
			return ""
		}
		return ledgertest.Has(answer, want)
	})
}

// TestOpenstackCommand runs every command of osc-placement once.
func TestOpenstackCommand(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import openstackclient, osc_placement").Run(); err != nil {
		t.Skip("skipped: python3-openstackclient and python3-osc-placement are not installed")
	}
	s := launch(t, t.TempDir())
	client := exec.Command("openstack", "--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", "http://"+s.HTTP)
	client.Env = append(client.Environ(), "OS_PLACEMENT_API_VERSION=1.29")
	converse(t, client, "testdata/openstack.txt")
}
