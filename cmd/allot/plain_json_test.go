package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTextsAsTheyAre: clients match on the texts of answers, in which <, > and &
// stand for themselves in every API.
func TestTextsAsTheyAre(t *testing.T) {
	s := launch(t, t.TempDir())
	ask := func(method, path, body string) string {
		t.Helper()
		_, text, err := sendTo(method, "http://"+s.http+path, body, map[string]string{
			"X-Auth-Token": "admin", "Content-Type": "application/json",
			"OpenStack-API-Version": "placement 1.39, baremetal 1.79",
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const provider, node = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000001"
	for _, c := range []struct{ method, path, body, has string }{
		{"POST", "/resource_providers", `{"name":"a<b>&c","uuid":"` + provider + `"}`, "a<b>&c"},
		{"GET", "/allocation_candidates?resources=VCPU:0", "", "Requested resource VCPU requires amount >= 1."},
		{"POST", "/baremetal/v1/nodes", `{"driver":"a<b>&c","uuid":"` + node + `"}`, "a<b>&c"},
		{"GET", "/baremetal/v1/nodes?limit=%3C%26%3E", "", "<&>"},
		{"GET", "/audit/records?from=1", "", "a<b>&c"},
		{"GET", "/audit/history?provider=" + provider, "", "a<b>&c"},
		{"GET", "/audit/history?node=" + node, "", "a<b>&c"},
	} {
		if text := ask(c.method, c.path, c.body); !strings.Contains(text, c.has) {
			t.Errorf("%s %s: %s lacks %s", c.method, c.path, text, c.has)
		}
	}
	out, err := exec.Command(binary, "history", "provider", provider, "--json", "--http", s.http).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "a<b>&c") {
		t.Errorf("allot history: %s, %v", out, err)
	}
}
