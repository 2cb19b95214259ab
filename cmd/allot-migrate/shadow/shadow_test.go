package shadow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	host  = "11111111-1111-4111-8111-111111111111"
	guest = "22222222-2222-4222-8222-222222222222"
)

// TestTouched: each route names what it changes, in one spelling.
func TestTouched(t *testing.T) {
	t.Parallel()
	ledgertest.Answers(t, "testdata/touched.txt", func(line, _ string) string {
		path, body, _ := strings.Cut(line, " ")
		pattern, parameter, known := route(path)
		if !known {
			return "no route"
		}
		var got []string
		for _, of := range touched(pattern, parameter, []byte(body)) {
			got = append(got, string(of))
		}
		return strings.Join(got, ", ")
	})
}

// TestGenerations: each generation in a body is replaced by its own, and nothing else.
func TestGenerations(t *testing.T) {
	t.Parallel()
	own := func(of Resource, given string) (string, error) {
		_, id := of.split()
		return fmt.Sprintf("%s0%s", id[:1], given[:1]), nil
	}
	ledgertest.Answers(t, "testdata/generations.txt", func(line, _ string) string {
		path, body, _ := strings.Cut(line, " ")
		pattern, parameter, _ := route(path)
		got, err := withGenerations(pattern, parameter, []byte(body), own)
		ledgertest.OK(t, err)
		return string(got)
	})
	for _, body := range []string{strings.Repeat("[", 1<<20), `{"a": `, `{]`} {
		if got, err := withGenerations("/reshaper", "", []byte(body), own); err == nil {
			t.Errorf("%.20s became %.20s", body, got)
		}
	}
}

// TestCompare: answers that mean the same are the same, and others are told apart.
func TestCompare(t *testing.T) {
	t.Parallel()
	ledgertest.Answers(t, "testdata/compared.txt", func(line, _ string) string {
		target, answers, _ := strings.Cut(line, " ")
		path, query, _ := strings.Cut(target, "?")
		left, right, _ := strings.Cut(answers, " <> ")
		return strings.Join(Compare(path, query, Answer{200, left}, Answer{200, right}), "; ")
	})
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
