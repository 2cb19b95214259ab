package placement_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestOrder: lists are in the order of Placement's rows, whatever the names
// and uuids are.
func TestOrder(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	h := handler(l)
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
	inOrder("amounts of a provider's consumer",
		do("GET", "/resource_providers/b0000000-0000-4000-8000-000000000001/allocations", ""), "VCPU", "MEMORY_MB")
	inOrder(
		"consumers", do("GET", "/resource_providers/b0000000-0000-4000-8000-000000000001/allocations", ""), first, second,
	)
	inOrder("usages of a project", do("GET", "/usages?project_id=p", ""), "VCPU", "MEMORY_MB", "CUSTOM_Z")
}

// heldIn returns what a consumer holds according to an answer, in the answer's
// order.
func heldIn(t *testing.T, answer string) string {
	t.Helper()
	providers := regexp.MustCompile(`"([0-9a-f-]{36})":\{"resources":\{([^}]*)\}`).FindAllStringSubmatch(answer, -1)
	var all []string
	for _, p := range providers {
		all = append(all, p[1][:1]+"("+strings.ReplaceAll(p[2], `"`, "")+")")
	}
	return strings.Join(all, " ")
}

// TestOrderOfAllocations: what a consumer holds is shown in the order of the
// request that wrote it last, whichever kind of request that was, even later, at
// a moment of the past, and in rebuilt read models.
func TestOrderOfAllocations(t *testing.T) {
	log := &memlog.Log{}
	l := commandstest.Start(t, t.TempDir(), log)
	h := handler(l)
	id := func(letter string) string { return strings.Repeat(letter, 8) + "-0000-4000-8000-000000000001" }
	body := func(version, method, path, text string) {
		t.Helper()
		text = regexp.MustCompile(`@(.)`).ReplaceAllStringFunc(text, func(s string) string { return `"` + id(s[1:]) + `"` })
		if r := sendAt(h, version, method, path, text); r.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, r.Code, r.Body)
		}
	}
	for _, letter := range []string{"c", "a", "b"} {
		body("1.39", "POST", "/resource_providers", `{"name":"`+letter+`","uuid":@`+letter+`}`)
		body("1.39", "PUT", "/resource_providers/"+id(letter)+"/inventories",
			`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":99},"MEMORY_MB":{"total":99},"DISK_GB":{"total":99}}}`)
	}
	consumer, other := id("e"), id("f")
	generation := func(consumer string) string {
		found := regexp.MustCompile(`"consumer_generation":(\d+)`).
			FindStringSubmatch(send(h, "GET", "/allocations/"+consumer, "").Body.String())
		if found == nil {
			return "null"
		}
		return found[1]
	}
	of := func(consumer, allocations string) string {
		return `{"allocations":` + allocations + `,"project_id":"p","user_id":"u","consumer_type":"T","consumer_generation":` +
			generation(consumer) + `}`
	}
	put := func(allocations string) func() {
		return func() { body("1.39", "PUT", "/allocations/"+consumer, of(consumer, allocations)) }
	}
	then := make(map[uint64]string)
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{
			"neither by uuid, nor as made, nor by number",
			put(`{@b:{"resources":{"DISK_GB":1,"VCPU":2,"MEMORY_MB":3}},@c:{"resources":{"MEMORY_MB":4,"VCPU":5}},@a:{"resources":{"VCPU":6}}}`),
			"b(DISK_GB:1,VCPU:2,MEMORY_MB:3) c(MEMORY_MB:4,VCPU:5) a(VCPU:6)",
		},
		{
			"the same amounts in another order",
			put(`{@a:{"resources":{"VCPU":6}},@c:{"resources":{"VCPU":5,"MEMORY_MB":4}},@b:{"resources":{"MEMORY_MB":3,"VCPU":2,"DISK_GB":1}}}`),
			"a(VCPU:6) c(VCPU:5,MEMORY_MB:4) b(MEMORY_MB:3,VCPU:2,DISK_GB:1)",
		},
		{
			"several consumers in one request",
			func() {
				body("1.39", "POST", "/allocations", `{@f:`+of(other, `{@c:{"resources":{"VCPU":1}},@a:{"resources":{"VCPU":1}}}`)+
					`,@e:`+of(consumer, `{@c:{"resources":{"MEMORY_MB":1,"DISK_GB":2}},@b:{"resources":{"VCPU":3}}}`)+`}`)
			}, "c(MEMORY_MB:1,DISK_GB:2) b(VCPU:3)",
		},
		{
			"a request that is not about it",
			func() { body("1.39", "DELETE", "/allocations/"+other, "") }, "c(MEMORY_MB:1,DISK_GB:2) b(VCPU:3)",
		},
		{
			"a reshape",
			func() {
				body("1.39", "POST", "/reshaper", `{"inventories":{@a:{"resource_provider_generation":`+
					strings.Split(strings.Split(send(h, "GET", "/resource_providers/"+id("a"), "").Body.String(), `"generation":`)[1], ",")[0]+
					`,"inventories":{"DISK_GB":{"total":9},"VCPU":{"total":9},"MEMORY_MB":{"total":9}}}},"allocations":{@e:`+
					of(consumer, `{@c:{"resources":{"MEMORY_MB":1}},@a:{"resources":{"VCPU":3,"DISK_GB":2}}}`)+`}}`)
			}, "c(MEMORY_MB:1) a(VCPU:3,DISK_GB:2)",
		},
		{
			"the list form",
			func() {
				body("1.11", "PUT", "/allocations/"+consumer, `{"allocations":[
					{"resource_provider":{"uuid":@b},"resources":{"MEMORY_MB":1,"VCPU":1}},
					{"resource_provider":{"uuid":@a},"resources":{"VCPU":1}}],"project_id":"p","user_id":"u"}`)
			}, "b(MEMORY_MB:1,VCPU:1) a(VCPU:1)",
		},
		{
			"a provider twice in the list form",
			func() {
				body("1.11", "PUT", "/allocations/"+consumer, `{"allocations":[
					{"resource_provider":{"uuid":@c},"resources":{"MEMORY_MB":1}},
					{"resource_provider":{"uuid":@a},"resources":{"VCPU":1}},
					{"resource_provider":{"uuid":@c},"resources":{"DISK_GB":2,"VCPU":3}}],"project_id":"p","user_id":"u"}`)
			}, "c(DISK_GB:2,VCPU:3) a(VCPU:1)",
		},
		{
			"a command with one provider's not side by side",
			func() {
				c := &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
					Consumer: mustParse(t, consumer), Project: "p", User: "u", AnyGeneration: true,
				}}}
				for i, one := range []string{"c VCPU", "a MEMORY_MB", "c DISK_GB", "b VCPU", "a VCPU"} {
					letter, class, _ := strings.Cut(one, " ")
					c.Allocations[0].Resources = append(c.Allocations[0].Resources, commands.ProviderAllocation{
						Provider: mustParse(t, id(letter)), Class: class, Amount: int64(i + 1),
					})
				}
				l.Accept(t, c)
			}, "c(VCPU:1,DISK_GB:3) a(MEMORY_MB:2,VCPU:5) b(VCPU:4)",
		},
	} {
		before := generation(consumer)
		step.do()
		sequence := l.Views.View().Sequence()
		then[sequence] = step.want
		if got := heldIn(t, send(h, "GET", "/allocations/"+consumer, "").Body.String()); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if moved := generation(consumer) != before; moved != (step.name != "a request that is not about it") {
			t.Errorf("%s: the consumer's generation moved: %v", step.name, moved)
		}
	}
	again := handler(commandstest.Start(t, t.TempDir(), log))
	for sequence, want := range then {
		for name, h := range map[string]http.Handler{"then": h, "made again": again} {
			path := fmt.Sprintf("/allocations/%s?at=%d", consumer, sequence)
			if got := heldIn(t, send(h, "GET", path, "").Body.String()); got != want {
				t.Errorf("%s, at %d: %s, want %s", name, sequence, got, want)
			}
		}
	}
}

func mustParse(t *testing.T, text string) ledger.UUID {
	t.Helper()
	id, err := ledger.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestUnknownClassWithWrongGeneration: the generation is checked first.
func TestUnknownClassWithWrongGeneration(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	path := "/resource_providers/" + l.Provider(t, "node").String() + "/inventories/"
	for _, class := range []string{"vcpu", "CUSTOM_NONE"} {
		for generation, want := range map[int]int{77: 409, 1: 404} {
			body := fmt.Sprintf(`{"resource_provider_generation":%d,"total":1}`, generation)
			if r := send(handler(l), "PUT", path+class, body); r.Code != want {
				t.Errorf("%s at %d: %d %s, want %d", class, generation, r.Code, r.Body, want)
			}
		}
	}
}

// TestFormsBeforeNames: a malformed query is reported as such, even if it also
// names something unknown.
func TestFormsBeforeNames(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	r := send(handler(l), "GET", "/resource_providers?resources=VCPU&required=CUSTOM_NONE", "")
	if r.Code != 400 || !strings.Contains(r.Body.String(), "Badly formed resources parameter") {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}
