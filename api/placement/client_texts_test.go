package placement_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestTextsThatClientsMatch: clients of Placement look for parts of error texts, and
// decide by them. Each row has what a client looks for, and whether it may be there.
func TestTextsThatClientsMatch(t *testing.T) {
	t.Parallel()
	const (
		host, other  = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
		holder       = "33333333-3333-4333-8333-333333333333"
		nameConflict = "Conflicting resource provider name:"                 // nova, zun, blazar, cyborg
		inUse        = `Inventory for (.+) on resource provider (.+) in use` // nova, zun, cyborg
		inUseCode    = `"code":"placement.inventory.inuse"`                  // nova
	)
	_, h := inMemory(t)
	provider := func(name, id string) string { return fmt.Sprintf(`{"name":%q,"uuid":%q}`, name, id) }
	allocation, inventory := taking(id(host), 1), "/resource_providers/"+host+"/inventories"
	changed := strings.Replace(allocation, "null", "99", 1)
	expect(t, h, "POST", "/resource_providers", provider("cn", host), 200)
	expect(t, h, "PUT", inventory, `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}}`, 200)
	expect(t, h, "PUT", "/allocations/"+holder, allocation, 204)
	for _, c := range []struct {
		what, method, target, body string
		status                     int
		text                       string // a regular expression
		there                      bool
	}{
		{"the provider exists", "POST", "/resource_providers", provider("cn", host), 409, nameConflict, false},
		{"the provider exists", "POST", "/resource_providers", provider("cn", host), 409, "uuid: " + host + " already", true},
		{"its uuid exists", "POST", "/resource_providers", provider("new", host), 409, nameConflict, false},
		{"its name is taken", "POST", "/resource_providers", provider("cn", other), 409, nameConflict, true},
		{"inventories in use", "DELETE", inventory, "", 409, inUse, true},
		{"a class in use", "DELETE", inventory + "/VCPU", "", 409, inUse, true},
		{"a class in use is left out", "PUT", inventory, `{"resource_provider_generation":2,"inventories":{}}`, 409, inUse, true},
		{"inventories in use", "PUT", inventory, `{"resource_provider_generation":2,"inventories":{}}`, 409, inUseCode, true},
		{"inventories in use", "DELETE", inventory, "", 409, inUseCode, true},
		{"the consumer has changed", "PUT", "/allocations/" + holder, changed, 409,
			"consumer generation conflict", true}, // nova
		{"the consumer has changed", "PUT", "/allocations/" + holder, changed, 409,
			`"code":"placement.concurrent_update"`, true},
		{"the provider has changed", "PUT", inventory, `{"resource_provider_generation":0,"inventories":{}}`, 409,
			`"code":"placement.concurrent_update"`, true}, // neutron-lib
		{"no provider", "GET", "/resource_providers/" + other + "/inventories/VCPU", "", 404, "No resource provider with uuid", true},
		{"no inventory", "GET", inventory + "/DISK_GB", "", 404, "No inventory of class", true},
	} {
		w := send(h, c.method, c.target, c.body)
		if found := regexp.MustCompile(c.text).Match(w.Body.Bytes()); w.Code != c.status || found != c.there {
			t.Errorf("%s: %d %s; %q is there: %v, want %v", c.what, w.Code, w.Body, c.text, found, c.there)
		}
		if w.Header().Get("Content-Type") != "application/json" && w.Code != http.StatusNoContent {
			t.Errorf("%s: an error of type %s", c.what, w.Header().Get("Content-Type"))
		}
	}
}
