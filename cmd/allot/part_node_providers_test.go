package main_test

import (
	"strings"
	"testing"
)

// TestProvidersOfNodesDeletedMeanwhile: the provider of a node that was deleted
// while node providers were off is deleted when they are on again. It stays if
// it is in use, which is logged, or a client has taken it over. Where Placement and Ironic gave a node
// to different owners meanwhile, the server does not start, and names the node.
func TestProvidersOfNodesDeletedMeanwhile(t *testing.T) {
	data := t.TempDir()
	s := launch(t, data, "--node-providers")
	const free, used, taken, foreign = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002",
		"10000000-0000-4000-8000-000000000003", "10000000-0000-4000-8000-000000000004"
	makeNode := func(id string) {
		s.mustMetal(201, "POST", "/nodes", `{"driver":"d","uuid":"`+id+`","resource_class":"bm"}`)
		s.mustMetal(202, "PUT", "/nodes/"+id+"/states/provision", `{"target":"manage"}`)
		s.mustMetal(202, "PUT", "/nodes/"+id+"/states/provision", `{"target":"provide"}`)
	}
	holding := func(node string) string {
		return strings.NewReplacer(anyProvider, node, "VCPU", "CUSTOM_BM").Replace(allocation())
	}
	for _, id := range []string{free, used, taken} {
		makeNode(id)
	}
	s.Must(201, "PUT", "/resource_classes/CUSTOM_MINE", "")
	restart := func(flags ...string) {
		s.Kill()
		s = launch(t, data, flags...)
	}
	restart()
	s.Must(204, "PUT", "/allocations/"+consumerID(1), holding(used))
	for _, id := range []string{free, used, taken} {
		s.mustMetal(204, "DELETE", "/nodes/"+id, "")
	}
	s.Must(200, "PUT", "/resource_providers/"+taken, `{"name":"mine"}`)
	s.Must(200, "POST", "/resource_providers", `{"name":"never a node","uuid":"`+foreign+`"}`)
	exist := func(want map[string]int) {
		t.Helper()
		for id, status := range want {
			s.Must(status, "GET", "/resource_providers/"+id, "")
		}
	}
	exist(map[string]int{free: 200, used: 200, taken: 200, foreign: 200})

	restart("--node-providers")
	exist(map[string]int{free: 404, used: 200, taken: 200, foreign: 200})
	s.waitLog("providers of deleted nodes remain")
	if logged := s.Logs.String(); !strings.Contains(logged, used) || strings.Contains(logged, taken) {
		t.Errorf("%s", logged)
	}
	s.Must(204, "DELETE", "/allocations/"+consumerID(1), "")
	restart("--node-providers")
	exist(map[string]int{used: 404, taken: 200, foreign: 200})

	const two = "10000000-0000-4000-8000-000000000005"
	makeNode(two)
	restart()
	s.Must(204, "PUT", "/allocations/"+consumerID(1), holding(two))
	s.mustMetal(200, "PATCH", "/nodes/"+two, `[{"op":"add","path":"/instance_uuid","value":"`+consumerID(2)+`"}]`)
	s.Kill()
	start(t, data, "--node-providers").Refuses("have two owners", two, consumerID(1), consumerID(2))
}
