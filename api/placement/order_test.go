package placement_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	inOrder := func(what, text string, names ...string) {
		t.Helper()
		names = slices.Clone(names)
		for i, name := range names {
			names[i] = regexp.QuoteMeta(`"` + name + `"`)
		}
		if !regexp.MustCompile("(?s)" + strings.Join(names, ".*")).MatchString(text) {
			t.Errorf("%s: %s is not in the order %v", what, text, names)
		}
	}
	ids := []string{
		"b0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002",
		"a0000000-0000-4000-8000-000000000003",
	}
	for i, id := range ids {
		do("POST", "/resource_providers", fmt.Sprintf(`{"name":"%d","uuid":"%s"}`, 9-i, id))
	}
	for _, name := range []string{"CUSTOM_Z", "CUSTOM_A"} {
		do("PUT", "/traits/"+name, "")
		do("PUT", "/resource_classes/"+name, "")
	}
	inventories := `"inventories":{"CUSTOM_A":{"total":9},"MEMORY_MB":{"total":9},"CUSTOM_Z":{"total":9},"VCPU":{"total":9}}`
	for _, id := range ids {
		answer := do("PUT", "/resource_providers/"+id+"/inventories", `{"resource_provider_generation":0,`+inventories+`}`)
		inOrder("inventories as sent", answer, "CUSTOM_A", "MEMORY_MB", "CUSTOM_Z", "VCPU")
		answer = do(
			"PUT", "/resource_providers/"+id+"/traits",
			`{"resource_provider_generation":1,"traits":["CUSTOM_Z","HW_CPU_X86_VMX","CUSTOM_A"]}`,
		)
		inOrder("traits as they are found", answer, "CUSTOM_A", "CUSTOM_Z", "HW_CPU_X86_VMX")
		inOrder(
			"inventories", do("GET", "/resource_providers/"+id+"/inventories", ""), "VCPU", "MEMORY_MB", "CUSTOM_Z",
			"CUSTOM_A",
		)
		inOrder("usages", do("GET", "/resource_providers/"+id+"/usages", ""), "VCPU", "MEMORY_MB", "CUSTOM_Z", "CUSTOM_A")
		inOrder("traits", do("GET", "/resource_providers/"+id+"/traits", ""), "HW_CPU_X86_VMX", "CUSTOM_Z", "CUSTOM_A")
	}
	inOrder("all traits", do("GET", "/traits", ""), "HW_CPU_X86_VMX", "STORAGE_DISK_HDD", "CUSTOM_Z", "CUSTOM_A")
	inOrder("providers", do("GET", "/resource_providers", ""), ids...)
	inOrder(
		"providers with room", do("GET", "/resource_providers?resources=VCPU:1&required=CUSTOM_A", ""),
		"b0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002",
		"a0000000-0000-4000-8000-000000000003",
	)
	candidates := func(what, query string, names ...string) {
		t.Helper()
		inOrder(what, do("GET", "/allocation_candidates?resources=CUSTOM_Z:1,VCPU:1"+query, ""), names...)
	}
	candidates("classes where no provider has a parent", "", "allocations", "CUSTOM_Z", "VCPU", "provider_summaries")
	made := slices.Concat([]string{"provider_summaries"}, ids, []string{"00000000-0000-4000-8000-000000000004"})
	candidates("providers in summaries", "", slices.Clone(made[:4])...)
	candidates("traits in summaries", "", "provider_summaries", "traits", "HW_CPU_X86_VMX", "CUSTOM_Z", "CUSTOM_A")
	do(
		"POST", "/resource_providers",
		`{"name":"kid","uuid":"00000000-0000-4000-8000-000000000004","parent_provider_uuid":"`+made[3]+`"}`,
	)
	candidates("classes where one has", "", "allocations", "VCPU", "CUSTOM_Z", "provider_summaries")
	inOrder(
		"classes of a group with a suffix", do("GET", "/allocation_candidates?resources1=CUSTOM_Z:1,VCPU:1", ""),
		"allocations", "CUSTOM_Z", "VCPU", "provider_summaries",
	)
	candidates("trees in summaries", "", made...)
	const first, second = "22222222-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
	for _, consumer := range []string{first, second} {
		do(
			"PUT",
			"/allocations/"+consumer,
			`{"allocations":{"`+"b0000000-0000-4000-8000-000000000001"+`":{"resources":{"MEMORY_MB":1,"VCPU":1}},
			"a0000000-0000-4000-8000-000000000003":{"resources":{"CUSTOM_Z":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
		)
	}
	inOrder("allocations", do("GET", "/allocations/"+first, ""),
		"b0000000-0000-4000-8000-000000000001", "MEMORY_MB", "VCPU", "a0000000-0000-4000-8000-000000000003")
	list := `{"allocations":[{"resource_provider":{"uuid":"` + ids[2] + `"},"resources":{"VCPU":1}},
		{"resource_provider":{"uuid":"` + ids[0] + `"},"resources":{"MEMORY_MB":1}},
		{"resource_provider":{"uuid":"` + ids[2] + `"},"resources":{"CUSTOM_Z":1,"VCPU":1}}],"project_id":"p","user_id":"u"}`
	const third = "/allocations/33333333-0000-4000-8000-000000000003"
	if r := sendAt(h, "1.11", "PUT", third, list); r.Code != http.StatusNoContent {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	inOrder("a provider twice in the list form", do("GET", third, ""),
		ids[2], "CUSTOM_Z", "VCPU", ids[0], "MEMORY_MB")
	do("DELETE", third, "")
	inOrder("amounts of a provider's consumer",
		do("GET", "/resource_providers/b0000000-0000-4000-8000-000000000001/allocations", ""), "VCPU", "MEMORY_MB")
	inOrder(
		"consumers", do("GET", "/resource_providers/b0000000-0000-4000-8000-000000000001/allocations", ""), first, second,
	)
	inOrder("usages of a project", do("GET", "/usages?project_id=p", ""), "VCPU", "MEMORY_MB", "CUSTOM_Z")
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
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/resource_classes", `{"name":"CUSTOM_A"}`, 201},
		{"PUT", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_B"}`, 200},
		{"PUT", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_C"}`, 404},
		{"GET", "/resource_classes/CUSTOM_B", "", 200},
	} {
		expectAt(t, h, "1.2", step.method, step.path, step.body, step.status)
	}
}
