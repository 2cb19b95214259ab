package natsapi

import (
	"fmt"
	"testing"
)

// TestTurns: clients take turns, whatever each has waiting, and bounds hold.
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
