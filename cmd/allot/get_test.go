package main_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestEverydayReads: what the command line prints of a small ledger, what it
// says of what is not there, and that it ends badly then.
func TestEverydayReads(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir())
	const host, consumer = "11111111-1111-4111-8111-111111111111", "aaaaaaaa-0000-4000-8000-000000000001"
	s.Must(http.StatusOK, "POST", "/resource_providers", `{"name": "host", "uuid": "`+host+`"}`)
	s.Must(http.StatusOK, "PUT", "/resource_providers/"+host+"/inventories",
		`{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8, "reserved": 1}}}`)
	s.Must(http.StatusOK, "PUT", "/resource_providers/"+host+"/traits",
		`{"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX2"]}`)
	s.Must(http.StatusNoContent, "PUT", "/allocations/"+consumer, `{"allocations": {"`+host+`": {"resources": {"VCPU": 2}}},
		"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`)
	s.mustMetal(http.StatusCreated, "POST", "/nodes", `{"driver": "ipmi", "name": "metal", "resource_class": "gold"}`)
	const strange = "bbbbbbbb-0000-4000-8000-000000000002" // its user writes to the terminals of others
	s.Must(http.StatusNoContent, "PUT", "/allocations/"+strange, `{"allocations": {"`+host+`": {"resources": {"VCPU": 1}}},
		"project_id": "other", "user_id": "x\u001b]0;pwned\u0007\nforged-row", "consumer_generation": null, "consumer_type": "INSTANCE"}`)
	const escaped = `x\x1b]0;pwned\a\nforged-row`
	for line, wants := range map[string][]string{
		"status":                                      {"status     ok", "role       leader", "disk       "},
		"get consumer " + strange:                     {escaped},
		"holders host --csv":                          {escaped},
		"list consumers --project other":              {"bbbbbbbb  other", "VCPU:1 of host"},
		"get consumer " + consumer:                    {"project", "p\n", "of host     VCPU:2"},
		"get node metal":                              {"resource_class   gold"},
		"series provider host --csv":                  {"time,sequence,VCPU,VCPU capacity\n", ",3,7\n"},
		"why consumer " + consumer + " provider host": {"holds 2 VCPU on host"},
		"search ost":                                  {"provider  host"},
	} {
		out := allot(t, true, append(strings.Fields(line), "--url", s.HTTP)...)
		says(t, out, wants...)
	}
	for line, want := range map[string]string{
		"get provider nohost":      `nothing found: no provider has the name "nohost", or a uuid that begins with it`,
		"get provider host --at 1": `nothing found: no provider has the name "host"`,
		"get consumer " + host:     "nothing found: consumer " + host + " holds nothing",
		"get project q":            "nothing found: project q holds nothing",
		"list allocations":         "nothing found: there are no allocations",
		"holders nohost":           "nothing found: no provider",
	} {
		if out, ok := call(t, append(strings.Fields(line), "--url", s.HTTP)...); ok || !strings.Contains(out, want) {
			t.Errorf("allot %s: %v, %s; want an error with %q", line, ok, out, want)
		}
	}
}
