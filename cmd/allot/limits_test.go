package main_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestLimitsAndPreferences: the commands that set and show limits and
// preferences, now and then, and what they say of what cannot be.
func TestLimitsAndPreferences(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir())
	const host, consumer = "11111111-1111-4111-8111-111111111111", "aaaaaaaa-0000-4000-8000-000000000001"
	s.must(http.StatusOK, "POST", "/resource_providers", `{"name": "host", "uuid": "`+host+`"}`)
	s.must(http.StatusOK, "PUT", "/resource_providers/"+host+"/inventories",
		`{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`)
	s.must(http.StatusNoContent, "PUT", "/allocations/"+consumer, `{"allocations": {"`+host+`": {"resources": {"VCPU": 2}}},
		"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`)
	ask := func(good bool, line string, more ...string) string {
		t.Helper()
		return allot(t, good, append(append(strings.Fields(line), more...), "--http", s.http)...)
	}
	const before = "4" // the commit before any limit
	ask(true, "limits set --class VCPU --most 20")
	ask(true, "limits set --project p --class VCPU --most 6")
	ask(true, "limits set --project p --type INSTANCE --most 3")
	ask(true, "limits tree p --below top")
	ask(true, "preferences set gold", `{"order":"pack"}`)
	ask(true, "preferences set gold", `{"order":"spread"}`)
	has := func(line string, wants ...string) {
		t.Helper()
		out := strings.Join(strings.Fields(ask(true, line)), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("allot %s prints no %q:\n%s", line, want, out)
			}
		}
	}
	has("limits list", "(default) VCPU 20 -", "p VCPU 6 2", "p consumers of type INSTANCE 3 1")
	has("limits show top", "top VCPU 20 2")
	has("limits show p", "p VCPU 6 2", "p consumers of type INSTANCE 3 1", "top VCPU 20 2")
	const rack = "33333333-3333-4333-8333-333333333333"
	s.must(http.StatusOK, "PUT", "/resource_providers/"+host+"/aggregates",
		`{"resource_provider_generation": 2, "aggregates": ["`+rack+`"]}`)
	ask(true, "limits set --class VCPU --most 5 --aggregate "+rack)
	ask(true, "limits set --class VCPU --most 1 --aggregate "+rack)
	has("limits list", "(aggregate "+rack+") VCPU 1 2")
	has("limits history --class VCPU --aggregate "+rack, "COMMIT LIMIT 13 1 12 5")
	has("limits history --class VCPU --project p", "COMMIT LIMIT 6 6")
	has("preferences list", `gold`, `{"order":"spread"}`)
	has("preferences show gold", `COMMIT PREFERS 10 {"order":"spread"} 9 {"order":"pack"}`)
	for _, line := range []string{"limits list --at " + before, "preferences list --at " + before} {
		if out := ask(true, line); strings.Contains(out, "VCPU") || strings.Contains(out, "gold") {
			t.Errorf("allot %s: %s", line, out)
		}
	}
	ask(true, "limits set --project p --class VCPU --none")
	has("limits show p", "p VCPU 20 2")
	has("limits history --class VCPU --project p", "COMMIT LIMIT 14 removed 6 6")
	ask(true, "limits tree p")
	has("limits show top", "top VCPU 20 0")
	ask(true, "preferences remove gold")
	has("preferences show gold", "removed")
	for line, want := range map[string]string{
		"limits set --class CUSTOM_NO --most 1":                            "CUSTOM_NO",
		"limits set --class VCPU --most 1 --project p --aggregate " + rack: "aggregate",
		"limits history --class CUSTOM_NO":                                 "CUSTOM_NO",
		"limits set --class VCPU":                                          "most",
		"limits set --class VCPU --type A --most 1":                        "type",
		"limits tree p --below p":                                          "below",
		`preferences set gold {"order":"best"}`:                            "best",
		"preferences set gold pack":                                        "not JSON",
		`preferences set a/b {}`:                                           "",
		"preferences show silver":                                          "silver",
		`preferences set gold {"weights":{"CUSTOM_NO":1}}`:                 "CUSTOM_NO",
		`preferences set gold {"order":"pack","weights":{"VCPU":1}}`:       "contradicts",
	} {
		if out := ask(false, line); !strings.Contains(out, want) {
			t.Errorf("allot %s does not say %q: %s", line, want, out)
		}
	}
}
