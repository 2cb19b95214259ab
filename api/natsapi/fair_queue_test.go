package natsapi

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// TestTurns: clients take turns, however many requests each has waiting, and the
// bounds hold.
func TestTurns(t *testing.T) {
	q := newFairQueue(doorQueue + 1000)
	var order []string
	add := func(client string, n int) {
		for i := range n {
			name := fmt.Sprint(client, i)
			if !q.push(client, job{do: func() { order = append(order, name) }, size: 1}) {
				t.Fatalf("%s is refused", name)
			}
		}
	}
	take := func(n int) {
		for range n {
			j, more := q.pop(make(chan struct{}, 1))
			if !more {
				t.Fatal("closed")
			}
			j.do()
		}
	}
	add("flood", 1000)
	add("a", 2)
	take(3)
	add("b", 1)
	take(4)
	if got, want := fmt.Sprint(order), "[flood0 a0 flood1 a1 b0 flood2 flood3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	add("flood", clientQueue-996)
	if q.push("flood", job{}) {
		t.Error("one client may have more waiting than allowed")
	}
	if q.push("large", job{size: doorBytes}) {
		t.Error("more bytes wait than allowed")
	}
	for c := 0; q.count < doorQueue; c++ {
		for range min(clientQueue, doorQueue-q.count) {
			q.push(fmt.Sprint("many", c), job{do: func() {}})
		}
	}
	if q.push("late", job{}) {
		t.Error("more requests wait than allowed")
	}
	q.close()
	if q.push("late", job{}) {
		t.Error("a closed queue takes requests")
	}
	left := 0
	for {
		if _, more := q.pop(make(chan struct{}, 1)); !more {
			break
		}
		left++
	}
	if left != doorQueue || q.bytes != 0 || len(q.clients) != 0 || len(q.turns) != 0 {
		t.Errorf("%d were left, %d bytes, %d clients", left, q.bytes, len(q.clients))
	}
}

// begins takes the requests that may begin now.
func begins(q *fairQueue) (names []string) {
	for {
		q.mu.Lock()
		turn := q.choose()
		if turn < 0 {
			q.mu.Unlock()
			return names
		}
		names = append(names, q.turns[turn].client)
		q.take(turn)
		q.mu.Unlock()
	}
}

// TestShares: a client gets its share of the requests under way and no more,
// however much it sends, and leaves the rest to others.
func TestShares(t *testing.T) {
	t.Parallel()
	q := newFairQueue(4)
	q.share = 2
	for range 100 {
		q.push("flood", job{})
	}
	if got := len(begins(q)); got != 2 {
		t.Errorf("%d of one client begin", got)
	}
	q.push("other", job{})
	if got := fmt.Sprint(begins(q)); got != "[other]" {
		t.Errorf("%s begin", got)
	}
	q.release("flood", 0)
	if got := fmt.Sprint(begins(q)); got != "[flood]" {
		t.Errorf("%s begin when one has ended", got)
	}
}

// TestSlowShares: whatever a client's slow requests weigh, they leave a quarter of the room
// to those of others, and its own wait in nobody's way.
func TestSlowShares(t *testing.T) {
	t.Parallel()
	for name, weight := range map[string]int{"light": lightWeight, "heavy": heavyUnderWay / 8} {
		q := newSlowQueue(underWay)
		all := slowUnderWay
		if weight > lightWeight {
			all = heavyUnderWay
		}
		for range all / weight {
			q.push("flood", job{weight: weight})
		}
		if got, want := len(begins(q)), all*3/4/weight; got != want {
			t.Errorf("%s: %d of one client begin, want %d", name, got, want)
		}
		q.push("other", job{weight: weight})
		if got := fmt.Sprint(begins(q)); got != "[other]" {
			t.Errorf("%s: %s begin", name, got)
		}
		q.release("flood", weight)
		if got := fmt.Sprint(begins(q)); got != "[flood]" {
			t.Errorf("%s: %s begin when one has ended", name, got)
		}
	}
	q := newSlowQueue(underWay)
	q.push("flood", job{weight: heavyUnderWay})
	if got := fmt.Sprint(begins(q)); got != "[flood]" {
		t.Errorf("%s begin: the largest request fits", got)
	}
}

// TestMemoryUnderWay: requests under way fit into the memory; light requests do
// not wait for heavy ones, and others do not pass the heaviest for ever.
func TestMemoryUnderWay(t *testing.T) {
	t.Parallel()
	q := newFairQueue(1000)
	half := heavyUnderWay/2 + 1
	q.push("a", job{weight: half})
	q.push("b", job{weight: heavyUnderWay})
	if got := fmt.Sprint(begins(q)); got != "[a]" {
		t.Errorf("%s begin", got)
	}
	q.push("c", job{weight: half})
	q.push("d", job{weight: lightWeight})
	if got := fmt.Sprint(begins(q)); got != "[d]" {
		t.Errorf("%s begin while a is under way", got)
	}
	q.release("a", half)
	if got := fmt.Sprint(begins(q)); got != "[b]" {
		t.Errorf("%s begin after a", got)
	}
	q.release("b", heavyUnderWay)
	if got := fmt.Sprint(begins(q)); got != "[c]" {
		t.Errorf("%s begin after b", got)
	}
	for range 2 * lightUnderWay / lightWeight {
		q.push("e", job{weight: lightWeight})
	}
	if got := len(begins(q)); got > lightUnderWay/lightWeight {
		t.Errorf("%d light requests begin", got)
	}
	if q.light > lightUnderWay || q.heavy > heavyUnderWay {
		t.Errorf("%d and %d bytes are under way", q.light, q.heavy)
	}
	for range 100 {
		q.push("f", job{size: 1 << 20})
	}
	if q.clients["f"].bytes > clientBytes || q.bytes > doorBytes {
		t.Errorf("%d bytes of one client wait, %d of all", q.clients["f"].bytes, q.bytes)
	}
}

// TestWeightIsThatOfWhatIsDecoded: a request counts for the memory that it takes
// decoded, and one that would take too much is refused before.
func TestWeightIsThatOfWhatIsDecoded(t *testing.T) {
	t.Parallel()
	const elements = 100_000
	for encoding, list := range map[string]func(n int) []byte{
		wire.TypeJSON: func(n int) []byte {
			return []byte(`{"allocations":[` + strings.Repeat("{},", n-1) + `{}]}`)
		},
		wire.TypeMsgpack: func(n int) []byte {
			head := append([]byte("\x81\xaballocations\xdd"), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
			return append(head, bytes.Repeat([]byte{0xc0}, n)...)
		},
	} {
		var s Service
		r := &request{Request: &message{&nats.Msg{Data: list(elements)}}, encoding: encoding}
		if failure := s.weigh(r); failure != nil || r.weight < 100*elements {
			t.Errorf("%d elements as %s weigh %d: %v", elements, encoding, r.weight, failure)
		}
		r = &request{Request: &message{&nats.Msg{Data: list(10 * elements)}}, encoding: encoding}
		if failure := s.weigh(r); failure == nil {
			t.Errorf("%d elements as %s are taken", 10*elements, encoding)
		}
	}
}

// TestRepliesGoToInboxes: nothing is answered on a subject that is no inbox.
func TestRepliesGoToInboxes(t *testing.T) {
	t.Parallel()
	s := Service{inboxes: []string{"_INBOX.", "_R_."}}
	for reply, may := range map[string]bool{
		"": true, "_INBOX.a.b": true, "_R_.x": true, "_INBOX": false, "allot.log": false, "$JS.API.STREAM.PURGE.ALLOT": false,
		"allot.notice.heartbeat": false, "x._INBOX.a": false, "allot.command.CreateTrait": false,
	} {
		if s.mayReplyTo(reply) != may {
			t.Errorf("an answer on %q: %v, want %v", reply, !may, may)
		}
	}
}

// TestQueryRules: every query has a rule about what users who are bound to a
// project may learn from it.
func TestQueryRules(t *testing.T) {
	t.Parallel()
	for name := range wire.Queries {
		if _, known := queryRules[name]; !known {
			t.Errorf("%s has no rule", name)
		}
	}
	for name := range queryRules {
		if _, known := wire.Queries[name]; !known {
			t.Errorf("there is no query %s", name)
		}
	}
	tenant := &User{Name: "tenant", Role: RoleSubmitter, Project: "p"}
	for _, c := range []struct {
		q      wire.Query
		answer any
		may    bool
	}{
		{&wire.NodeQuery{}, &wire.Node{}, false},
		{&wire.NodeQuery{}, &wire.Node{NodeDescription: ledger.NodeDescription{Owner: "q"}}, false},
		{&wire.NodeQuery{}, &wire.Node{NodeDescription: ledger.NodeDescription{Owner: "p"}}, true},
		{&wire.NodeQuery{}, &wire.Node{NodeDescription: ledger.NodeDescription{Owner: "q", Lessee: "p"}}, true},
		{&wire.NodeAllocationQuery{}, &wire.NodeAllocation{}, false},
		{&wire.NodeAllocationQuery{}, &wire.NodeAllocation{Owner: "p"}, true},
		{&wire.AllocationsQuery{}, &wire.Allocations{Project: "q"}, false},
		{&wire.AllocationsQuery{}, &wire.Allocations{Project: "p"}, true},
	} {
		if failure := tenant.maySee(c.q, c.answer); (failure == nil) != c.may {
			t.Errorf("%s %+v: %v", c.q.QueryName(), c.answer, failure)
		}
	}
}

// TestForget: the waiting requests of some clients are taken out, and no others;
// the turns of the rest go on, and there is room for new ones.
func TestForget(t *testing.T) {
	t.Parallel()
	q := newFairQueue(1)
	if !q.pass("busy", 1) {
		t.Fatal("an empty queue is full")
	}
	for range 3 {
		for _, client := range []string{"a 1", "b 1", "a 2"} {
			if !q.push(client, job{size: 10, weight: 1}) {
				t.Fatal("refused")
			}
		}
	}
	found := q.forget(func(client string) bool { return strings.HasPrefix(client, "a ") })
	if len(found) != 6 || q.count != 3 || q.bytes != 30 || len(q.clients) != 1 || len(q.turns) != 1 {
		t.Errorf("%d are forgotten, %d of %d bytes are left", len(found), q.count, q.bytes)
	}
	if again := q.forget(func(string) bool { return false }); len(again) != 0 {
		t.Errorf("%d more are forgotten", len(again))
	}
	q.push("a 1", job{size: 10, weight: 1})
	q.release("busy", 1)
	q.close()
	wake, taken := make(chan struct{}, 1), 0
	for {
		j, more := q.pop(wake)
		if !more {
			break
		}
		taken++
		q.release("", j.weight)
	}
	if taken != 4 {
		t.Errorf("%d were left, not 4", taken)
	}
}
