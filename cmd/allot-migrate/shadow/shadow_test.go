package shadow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	host  = "11111111-1111-4111-8111-111111111111"
	guest = "22222222-2222-4222-8222-222222222222"
	other = "33333333-3333-4333-8333-333333333333"
)

// TestTouched: each route names what it changes, in one spelling.
func TestTouched(t *testing.T) {
	t.Parallel()
	upper := strings.ReplaceAll(strings.ToUpper(guest), "-", "")
	for _, row := range []struct{ path, body, want string }{
		{"/resource_providers", `{"name": "n", "uuid": "` + host + `"}`, "provider " + host},
		{"/resource_providers", `{"name": "n"}`, ""},
		{"/resource_providers/" + host, ``, "provider " + host},
		{"/resource_providers/" + host + "/inventories/VCPU", `{}`, "provider " + host},
		{"/resource_providers/" + host + "/traits", `{}`, "provider " + host},
		{"/resource_classes", `{"name": "CUSTOM_A"}`, "class CUSTOM_A"},
		{"/resource_classes/CUSTOM_A", `{"name": "CUSTOM_B"}`, "class CUSTOM_A, class CUSTOM_B"},
		{"/resource_classes/CUSTOM_A", ``, "class CUSTOM_A"},
		{"/traits/CUSTOM_A", ``, "trait CUSTOM_A"},
		{"/allocations/" + upper, `{}`, "consumer " + guest},
		{"/allocations", `{"` + other + `": {}, "` + guest + `": {}}`, "consumer " + guest + ", consumer " + other},
		{"/reshaper", `{"inventories": {"` + host + `": {}}, "allocations": {"` + guest + `": {}}}`,
			"consumer " + guest + ", provider " + host},
		{"/reshaper", `[1`, ""},
	} {
		pattern, parameter, known := route(row.path)
		if !known {
			t.Errorf("%s is unknown", row.path)
		}
		var got []string
		for _, of := range touched(pattern, parameter, []byte(row.body)) {
			got = append(got, string(of))
		}
		if joined := strings.Join(got, ", "); joined != row.want {
			t.Errorf("%s %s: %q, want %q", row.path, row.body, joined, row.want)
		}
	}
	for _, path := range []string{"/claims", "/audit/records", "/resource_providers//traits", "/x", "/traits/"} {
		if pattern, _, known := route(path); known {
			t.Errorf("%s is %s", path, pattern)
		}
	}
}

// TestGenerations: each generation in a body is replaced by its own, and nothing else.
func TestGenerations(t *testing.T) {
	t.Parallel()
	own := func(of Resource, given string) (string, error) {
		_, id := of.split()
		return fmt.Sprintf("%s0%s", id[:1], given[:1]), nil
	}
	for _, row := range []struct{ path, body, want string }{
		{"/resource_providers/" + host + "/traits", `{"resource_provider_generation" : 7, "traits": ["B", "A"]}`,
			`{"resource_provider_generation" : 107, "traits": ["B", "A"]}`},
		{"/allocations/" + guest, `{"allocations": {"` + host + `": {"resources": {"VCPU": 1}, "generation": 3}}, "consumer_generation":null}`,
			`{"allocations": {"` + host + `": {"resources": {"VCPU": 1}, "generation": 3}}, "consumer_generation":20n}`},
		{"/allocations", `{"` + other + `": {"consumer_generation": 4, "x": {"consumer_generation": 4}}, "` + guest + `": {"consumer_generation": 5}}`,
			`{"` + other + `": {"consumer_generation": 304, "x": {"consumer_generation": 4}}, "` + guest + `": {"consumer_generation": 205}}`},
		{"/reshaper", `{"inventories": {"` + host + `": {"resource_provider_generation": 1, "inventories": {}}},
			"allocations": {"` + guest + `": {"consumer_generation": 2}}}`,
			`{"inventories": {"` + host + `": {"resource_provider_generation": 101, "inventories": {}}},
			"allocations": {"` + guest + `": {"consumer_generation": 202}}}`},
		{"/resource_providers", `{"resource_provider_generation": 1}`, `{"resource_provider_generation": 1}`},
		{"/traits/X", ``, ``},
	} {
		pattern, parameter, _ := route(row.path)
		got, err := withGenerations(pattern, parameter, []byte(row.body), own)
		if err != nil || string(got) != row.want {
			t.Errorf("%s: %s, %v, want %s", row.path, got, err, row.want)
		}
	}
	for _, body := range []string{strings.Repeat("[", 1<<20), `{"a": `, `{]`} {
		if got, err := withGenerations("/reshaper", "", []byte(body), own); err == nil {
			t.Errorf("%.20s became %.20s", body, got)
		}
	}
}

// TestCompare: answers that mean the same are the same, and others are told apart.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ path, query, left, right, want string }{
		{"/a", "", `{"x": 1.0, "consumer_generation": 3, "l": [2, {"b": 1}, "c"]}`, `{"l": ["c", 2, {"b": 1.0}], "consumer_generation": 9, "x": 1}`, ""},
		{"/a", "", `{"errors": [{"status": 409, "code": "a", "detail": "x", "request_id": "1"}]}`,
			`{"errors": [{"status": 409, "code": "b", "detail": "y", "request_id": "2"}]}`, `errors: [{"code":"a","status":409}], [{"code":"b","status":409}]`},
		{"/a", "", `{"x": {"y": 1}}`, `{"x": {"y": 2}}`, "x.y: 1, 2"},
		{"/a", "", `{"x": [1, 1]}`, `{"x": [1]}`, "x: [1,1], [1]"},
		{"/a", "", `{"generation": 1}`, `{}`, "generation: 1, null"},
		{"/a", "", ``, `{}`, ": null, {}"},
		{"/a", "", `<html>`, `<html>`, ""},
		{"/traits", "", `{"traits": ["HW_A", "CUSTOM_A"]}`, `{"traits": ["CUSTOM_A", "HW_B", "HW_C"]}`, ""},
		{"/traits", "", `{"traits": ["HW_A", "CUSTOM_A"]}`, `{"traits": ["HW_A"]}`, `traits: ["CUSTOM_A"], []`},
		{"/resource_classes", "", `{"resource_classes": [{"name": "VCPU"}]}`, `{"resource_classes": [{"name": "CUSTOM_A"}]}`,
			`resource_classes: [], [{"name":"CUSTOM_A"}]`},
		{"/resource_providers/x/traits", "", `{"traits": ["HW_A"]}`, `{"traits": []}`, `traits: ["HW_A"], []`},
		{"/allocation_candidates", "limit=1", `{"allocation_requests": [1]}`, `{"allocation_requests": [2]}`, ""},
		{"/allocation_candidates", "limit=1", `{"allocation_requests": [1]}`, `{"allocation_requests": []}`,
			"number of allocation_requests: 1, 0"},
		{"/allocation_candidates", "", `{"allocation_requests": [1]}`, `{"allocation_requests": [2]}`, "allocation_requests: [1], [2]"},
	} {
		got := strings.Join(Compare(row.path, row.query, Answer{200, row.left}, Answer{200, row.right}), "; ")
		if got != row.want {
			t.Errorf("%s and %s: %q, want %q", row.left, row.right, got, row.want)
		}
	}
	if got := Compare("/a", "", Answer{204, ""}, Answer{409, "x"}); !slices.Equal(got, []string{"status: 204, 409"}) {
		t.Error(got)
	}
}

// TestQueue: what does not fit is refused, and a missed thing never comes before a write
// that was there when it was missed.
func TestQueue(t *testing.T) {
	t.Parallel()
	q := newQueue(100 << 10)
	added := 0
	for q.add(&entry{write: true, body: make([]byte, 1024)}) {
		added++
	}
	if added < 10 || added > 100 {
		t.Errorf("%d entries of 3 KiB fit into 100 KiB", added)
	}
	waiting := newQueue(1 << 20)
	for waiting.add(&entry{}) {
	}
	if got := waiting.length().entries; got != mostReads || !waiting.add(&entry{write: true}) {
		t.Errorf("%d reads wait, and keep out a write", got)
	}
	of := resource(kindConsumer, guest)
	q.miss(of)
	for i := range added {
		e, m := q.next(t.Context())
		if e == nil || e.number != uint64(i+1) {
			t.Fatalf("entry %d: %v, %v", i, e, m)
		}
		q.done()
	}
	for i := range 3 * repairEvery {
		q.add(&entry{write: true})
		e, m := q.next(t.Context())
		q.done()
		if m != nil {
			if m.of != of {
				t.Error(m)
			}
			return
		}
		if e == nil || i == 3*repairEvery-1 {
			t.Error("writes put a missed thing off for ever")
		}
	}
}

// lose notes that something was missed that has no name.
func (q *queue) lose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost++
}

// TestQueueOfTooMuch: when too many things are missed, everything is to be compared.
func TestQueueOfTooMuch(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	for i := range mostMissed + 1 {
		q.miss(Resource(fmt.Sprint("consumer ", i)))
	}
	if left := q.length(); left.missing != mostMissed || !left.lost || q.length().comparison {
		t.Errorf("%+v: those with a name come first", left)
	}
	lost := q.length().lostSoFar
	for range mostMissed {
		q.next(t.Context())
		q.done()
	}
	if left := q.length(); left.missing != 0 || !left.lost || !q.length().comparison {
		t.Errorf("%+v: everything is to be compared", left)
	}
	q.lose() // while everything is compared
	q.foundAgain(lost)
	if !q.length().comparison {
		t.Error("what was lost during a comparison is forgotten")
	}
	q.foundAgain(q.length().lostSoFar)
	if q.length().comparison || q.length().lost {
		t.Error("everything is to be compared twice")
	}
}

// TestQueueLater: what is looked at later comes when its time has come, and what is
// perhaps in line does not keep the lead from changing.
func TestQueueLater(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	q.lookAgain(time.Hour, "consumer perhaps")
	q.missLater(time.Minute, missed{of: "generation late"})
	q.missLater(time.Minute, missed{of: "trait late"})
	if left := q.length(); left.missing != 2 || left.generations != 1 {
		t.Errorf("%+v", left)
	}
	now := time.Now()
	if e, m, wait := q.take(now); e != nil || m != nil || wait > time.Minute {
		t.Error(e, m, wait)
	}
	for _, want := range []Resource{"trait late", "generation late"} {
		_, m, _ := q.take(now.Add(2 * time.Minute))
		if m == nil || m.of != want {
			t.Fatal(m, want)
		}
		q.done()
	}
	if left := q.length(); left.missing != 0 {
		t.Errorf("%+v", left)
	}
	if _, m, _ := q.take(now.Add(2 * time.Hour)); m == nil || m.of != "consumer perhaps" {
		t.Error(m)
	}
}

// TestNamed: a body that has a uuid, or is no provider's, stays as it is. Others get a uuid, as in everyRoute.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, same := range []string{`{"uuid": "x", "name": "n"}`, `{"uuid": null}`, `{}`, ` { } `, `[]`, `{"name"`, ``} {
		if got := named([]byte(same)); string(got) != same {
			t.Errorf("%s became %s", same, got)
		}
	}
}

// TestPace: while the lead is to change, a write waits until the follower has finished two
// others, and not for the whole queue.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{QueueBytes: 1 << 20, SwitchWithin: time.Hour})
		for range 10 * mostBehind {
			s.queue.add(&entry{write: true})
		}
		s.pacing.Store(true)
		passed := 0
		for range 3 {
			go func() { s.pace(t.Context()); passed++ }()
			synctest.Wait()
		}
		for finished := range 3 * finishedEach {
			if passed != finished/finishedEach {
				t.Errorf("%d writes passed while the follower has finished %d", passed, finished)
			}
			s.queue.next(t.Context())
			s.queue.done()
			synctest.Wait()
		}
		if passed != 3 {
			t.Errorf("%d writes passed, and %d wait for a queue", passed, 3-passed)
		}
	})
}
