package placement_test

import (
	"testing"
)

// TestCounters sets the counters of a card and what its profiles draw, and shows what is left of them.
func TestCounters(t *testing.T) {
	t.Parallel()
	_, h := inMemory(t)
	const (
		card, one, two = "11111111-1111-4111-8111-111111111111", "11111111-1111-4111-8111-111111111112", "11111111-1111-4111-8111-111111111113"
		consumer       = "22222222-2222-4222-8222-22222222222"
		inventory      = `{"resource_provider_generation":0,"inventories":{"VGPU":{"total":7}}}`
	)
	gets := func(n, provider, amount string) (path, body string) {
		return "/allocations/" + consumer + n, `{"allocations":{"` + provider + `":{"resources":{"VGPU":` + amount +
			`}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`
	}
	first, firstBody := gets("1", one, "3")
	second, secondBody := gets("2", two, "3")
	counters := func(id string) string { return "/resource_providers/" + id + "/counters" }
	for _, step := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"POST", "/resource_providers", `{"name":"card","uuid":"` + card + `"}`, 200, ""},
		{"POST", "/resource_providers", `{"name":"one","uuid":"` + one + `","parent_provider_uuid":"` + card + `"}`, 200, ""},
		{"POST", "/resource_providers", `{"name":"two","uuid":"` + two + `","parent_provider_uuid":"` + card + `"}`, 200, ""},
		{"PUT", "/resource_providers/" + one + "/inventories", inventory, 200, ""},
		{"PUT", "/resource_providers/" + two + "/inventories", inventory, 200, ""},
		{"PUT", counters(one), `{"resource_provider_generation":1,"draws":{"VGPU":{"SLICE":1}}}`, 400, "has a counter SLICE to draw from"},
		{"PUT", counters(card), `{"resource_provider_generation":0,"counters":{"SLICE":7,"MODE":1}}`, 200, `"left":{"MODE":1,"SLICE":7}`},
		{"PUT", counters(card), `{"resource_provider_generation":0,"counters":{}}`, 409, "generation already changed"},
		{"PUT", counters(card), `{"resource_provider_generation":1,"counter":{}}`, 400, "Additional properties"},
		{"PUT", counters(one), `{"resource_provider_generation":1,"draws":{"VGPU":{"SLICE":1,"MODE":"MIG"}}}`, 200, `"MODE":"MIG"`},
		{"PUT", counters(two), `{"resource_provider_generation":1,"draws":{"VGPU":{"SLICE":2,"MODE":"MIG"}}}`, 200, `"SLICE":2`},
		{"PUT", counters(card), `{"resource_provider_generation":1,"counters":{"SLICE":7}}`, 409, "draw from its counter MODE"},
		{"PUT", first, firstBody, 204, ""},
		{"PUT", second, secondBody, 409, "would exceed the capacity"},
		{"GET", counters(card), "", 200, `"left":{"MODE":0,"SLICE":4}`},
		{"PUT", counters(card), `{"resource_provider_generation":1,"counters":{"SLICE":2,"MODE":1}}`, 200, `"SLICE":-1`},
		{"GET", counters(two), "", 200, `"draws":{"VGPU":{"MODE":"MIG","SLICE":2}}`},
		{"GET", counters(consumer + "9"), "", 404, ""},
	} {
		expect(t, h, step.method, step.path, step.body, step.status, step.has)
	}
}
