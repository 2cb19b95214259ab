package placement_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestOrder: lists are in the order of Placement's rows, whatever the names
// and uuids are.
func TestOrder(t *testing.T) {
	_, h := inMemory(t)
	do := func(method, path, body string) string {
		t.Helper()
		r := send(h, method, path, body)
		if r.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, r.Code, r.Body)
		}
		return r.Body.String()
	}
	inOrder := func(text string, names ...string) {
		t.Helper()
		quoted := make([]string, len(names))
		for i, name := range names {
			quoted[i] = regexp.QuoteMeta(`"` + name + `"`)
		}
		if !regexp.MustCompile("(?s)" + strings.Join(quoted, ".*")).MatchString(text) {
			t.Errorf("%s is not in the order %v", text, names)
		}
	}
	shows := func(path string, names ...string) {
		t.Helper()
		inOrder(do("GET", path, ""), names...)
	}
	const b, c, a = "b0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002", "a0000000-0000-4000-8000-000000000003"
	const kid = "00000000-0000-4000-8000-000000000004"
	for i, id := range []string{b, c, a} {
		do("POST", "/resource_providers", fmt.Sprintf(`{"name":"%d","uuid":"%s"}`, 9-i, id))
	}
	for _, name := range []string{"CUSTOM_Z", "CUSTOM_A"} {
		do("PUT", "/traits/"+name, "")
		do("PUT", "/resource_classes/"+name, "")
	}
	const inventories = `{"resource_provider_generation":0,"inventories":{"CUSTOM_A":{"total":9},"MEMORY_MB":{"total":9},"CUSTOM_Z":{"total":9},"VCPU":{"total":9}}}`
	const traits = `{"resource_provider_generation":1,"traits":["CUSTOM_Z","HW_CPU_X86_VMX","CUSTOM_A"]}`
	for _, id := range []string{b, c, a} {
		path := "/resource_providers/" + id
		inOrder(do("PUT", path+"/inventories", inventories), "CUSTOM_A", "MEMORY_MB", "CUSTOM_Z", "VCPU") // as sent
		inOrder(do("PUT", path+"/traits", traits), "CUSTOM_A", "CUSTOM_Z", "HW_CPU_X86_VMX")              // as they are found
		shows(path+"/inventories", "VCPU", "MEMORY_MB", "CUSTOM_Z", "CUSTOM_A")
		shows(path+"/usages", "VCPU", "MEMORY_MB", "CUSTOM_Z", "CUSTOM_A")
		shows(path+"/traits", "HW_CPU_X86_VMX", "CUSTOM_Z", "CUSTOM_A")
	}
	shows("/traits", "HW_CPU_X86_VMX", "STORAGE_DISK_HDD", "CUSTOM_Z", "CUSTOM_A")
	shows("/resource_providers", b, c, a)
	shows("/resource_providers?resources=VCPU:1&required=CUSTOM_A", b, c, a)
	const candidates = "/allocation_candidates?resources=CUSTOM_Z:1,VCPU:1"
	const asked, sorted = `"resources":{"CUSTOM_Z":1,"VCPU":1}`, `"resources":{"VCPU":1,"CUSTOM_Z":1}`
	expect(t, h, "GET", candidates, "", 200, asked, `"traits":["HW_CPU_X86_VMX","CUSTOM_Z","CUSTOM_A"]`)
	shows(candidates, "provider_summaries", b, c, a)
	do("POST", "/resource_providers", `{"name":"kid","uuid":"`+kid+`","parent_provider_uuid":"`+a+`"}`)
	expect(t, h, "GET", candidates, "", 200, sorted) // since one has a parent
	expect(t, h, "GET", "/allocation_candidates?resources1=CUSTOM_Z:1,VCPU:1", "", 200, asked)
	shows(candidates, "provider_summaries", b, c, a, kid)
	const first, second = "22222222-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
	for _, consumer := range []string{first, second} {
		do("PUT", "/allocations/"+consumer, `{"allocations":{"`+b+`":{"resources":{"MEMORY_MB":1,"VCPU":1}},
			"`+a+`":{"resources":{"CUSTOM_Z":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`)
	}
	shows("/allocations/"+first, b, "MEMORY_MB", "VCPU", a)
	const twice = `{"allocations":[{"resource_provider":{"uuid":"` + a + `"},"resources":{"VCPU":1}},
		{"resource_provider":{"uuid":"` + b + `"},"resources":{"MEMORY_MB":1}},
		{"resource_provider":{"uuid":"` + a + `"},"resources":{"CUSTOM_Z":1,"VCPU":1}}],"project_id":"p","user_id":"u"}`
	const third = "/allocations/33333333-0000-4000-8000-000000000003"
	expectAt(t, h, "1.11", "PUT", third, twice, 204)
	shows(third, a, "CUSTOM_Z", "VCPU", b, "MEMORY_MB")
	do("DELETE", third, "")
	shows("/resource_providers/"+b+"/allocations", "VCPU", "MEMORY_MB")
	shows("/resource_providers/"+b+"/allocations", first, second)
	shows("/usages?project_id=p", "VCPU", "MEMORY_MB", "CUSTOM_Z")
}

// TestUnknownClassWithWrongGeneration: the generation is checked first.
func TestUnknownClassWithWrongGeneration(t *testing.T) {
	l, h := inMemory(t)
	path := "/resource_providers/" + l.Provider(t, "node").String() + "/inventories/"
	for _, class := range []string{"vcpu", "CUSTOM_NONE"} {
		for generation, want := range map[int]int{77: 409, 1: 404} {
			body := fmt.Sprintf(`{"resource_provider_generation":%d,"total":1}`, generation)
			expect(t, h, "PUT", path+class, body, want)
		}
	}
}

// TestFormsBeforeNames: a malformed query is reported as such, even if it also
// names something unknown.
func TestFormsBeforeNames(t *testing.T) {
	_, h := inMemory(t)
	expect(t, h, "GET", "/resource_providers?resources=VCPU&required=CUSTOM_NONE", "", 400, "Badly formed resources parameter")
}

// TestClassIsRenamed: below 1.7 a PUT renames a class, and needs one.
func TestClassIsRenamed(t *testing.T) {
	_, h := inMemory(t)
	expectAt(t, h, "1.2", "POST", "/resource_classes", `{"name":"CUSTOM_A"}`, 201)
	expectAt(t, h, "1.2", "PUT", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_B"}`, 200)
	expectAt(t, h, "1.2", "PUT", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_C"}`, 404)
	expectAt(t, h, "1.2", "GET", "/resource_classes/CUSTOM_B", "", 200)
}

// TestAggregateSpelling: an aggregate is shown as it was first spelt for the provider,
// and is the same aggregate in every spelling.
func TestAggregateSpelling(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	host, id := ledgertest.ID(1, 1), ledgertest.ID(0xab, 2)
	l.Accept(t, &commands.CreateProvider{Provider: host, Name: "host"})
	dashed, plain := id.String(), ledger.SpelledPlain.Text(id)
	path, generation := "/resource_providers/"+host.String()+"/aggregates", 0
	put := func(texts ...string) {
		t.Helper()
		list := `["` + strings.Join(texts, `","`) + `"]`
		if len(texts) == 0 {
			list = "[]"
		}
		body := fmt.Sprintf(`{"aggregates":%s,"resource_provider_generation":%d}`, list, generation)
		expect(t, h, "PUT", path, body, 200)
		generation++
	}
	shows := func(texts ...string) {
		t.Helper()
		want := `"aggregates":["` + strings.Join(texts, `","`) + `"]`
		if r := send(h, "GET", path, ""); !strings.Contains(strings.ReplaceAll(r.Body.String(), " ", ""), want) {
			t.Errorf("%s lacks %s", r.Body, want)
		}
	}
	other := ledgertest.ID(3, 1).String()
	put(plain)
	shows(plain)
	for _, spelt := range []string{dashed, plain, strings.ToUpper(dashed)} {
		expect(t, h, "GET", "/resource_providers?member_of="+spelt, "", 200, host.String())
	}
	put(other, dashed)
	shows(other, plain)
	expectAt(t, h, "1.1", "PUT", path, fmt.Sprintf(`["%s","%s"]`, other, strings.ToUpper(dashed)), 200)
	shows(other, plain)
	put(other)
	put(strings.ToUpper(dashed), other)
	shows(strings.ToUpper(dashed), other)
	put()
	put("urn:uuid:" + dashed)
	shows(dashed)
}
