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
		"history consumer " + strange[:8]:             {"consumer bbbbbbbb (project other)"},
		"holders host --csv":                          {escaped},
		"log --from 3":                                {"AllocateForConsumers", "admin allocated 1 VCPU on host for consumer bbbbbbbb (project other)"},
		"list consumers --project other":              {"bbbbbbbb  other", "VCPU:1 of host"},
		"list consumers --project other --ids":        {strange},
		"rejected":                                    {"COMMAND"},
		"get provider host":                           {"uuid        " + host, "VCPU        3 of 7 (8 in all, 1 reserved, ratio 1)", "HW_CPU_X86_AVX2"},
		"get provider " + host:                        {"name        host"},
		"get provider host --at 4":                    {"VCPU        0 of 7"},
		"get provider host --json":                    {`"usages":{"resource_provider_generation":4,"usages":{"VCPU":3}}`},
		"get consumer " + consumer:                    {"project", "p\n", "of host     VCPU:2"},
		"get project p":                               {"INSTANCE  1 consumers: VCPU:2"},
		"get node metal":                              {"resource_class   gold"},
		"list providers":                              {"11111111  host  VCPU 3 of 7"},
		"list consumers":                              {"aaaaaaaa  p        INSTANCE  VCPU:2 of host"},
		"list classes":                                {"VCPU\nMEMORY_MB\n"},
		"list traits":                                 {"HW_CPU_X86_AVX2"},
		"list nodes":                                  {"metal  gold   enroll"},
		"list nodes --json":                           {`"name":"metal"`},
		"series provider host --csv":                  {"time,sequence,VCPU,VCPU capacity\n", ",3,7\n"},
		"series project p --points 2":                 {"VCPU", "2"},
		"holders host":                                {consumer[:8] + " ", "VCPU:2 of host"},
		"holders host --ids":                          {consumer},
		"get consumer " + consumer[:8]:                {"of host", "VCPU:2"},
		"timeline --provider host":                    {" VCPU on host for consumer "},
		"history provider host":                       {"AllocateForConsumers"},
		"why consumer " + consumer + " provider host": {"holds VCPU:2 of provider host"},
	} {
		out := allot(t, true, append(strings.Fields(line), "--url", s.HTTP)...)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("allot %s prints no %q:\n%s", line, want, out)
			}
		}
	}
	for line, want := range map[string]string{
		"get provider nohost":      `nothing found: no provider has the name "nohost", or a uuid that begins with it`,
		"get provider host --at 1": `nothing found: no provider has the name "host"`,
		"get consumer " + host:     "nothing found: consumer " + host + " holds nothing",
		"get project q":            "nothing found: project q holds nothing",
		"get node nonode":          "nothing found: no node has the name",
		"list allocations":         "nothing found: there are no allocations",
		"series project q":         "nothing found: project q used nothing then",
		"holders nohost":           "nothing found: no provider",
	} {
		if out, ok := call(t, append(strings.Fields(line), "--url", s.HTTP)...); ok || !strings.Contains(out, want) {
			t.Errorf("allot %s: %v, %s; want an error with %q", line, ok, out, want)
		}
	}
}
