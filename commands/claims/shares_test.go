package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
)

// TestShares: clients take turns, whatever each has sent, and each one's own come in
// the order in which it sent them. One that has much waiting keeps nobody out.
func TestShares(t *testing.T) {
	t.Parallel()
	var s shares[string]
	add := func(client string, n int, want bool) {
		t.Helper()
		for i := range n {
			if got := s.add(client, fmt.Sprint(client, i)); got != want {
				t.Fatalf("%s, the %dth: taken is %v with %d that wait", client, i, got, s.size)
			}
		}
	}
	take := func(n int) (got []string) {
		for range n {
			one, ok := s.next()
			if !ok {
				t.Fatal("nothing waits")
			}
			got = append(got, one)
		}
		return got
	}
	add("a", 3, true)
	add("b", 1, true)
	add("c", 2, true)
	if got := strings.Join(take(4), " "); got != "a0 b0 c0 a1" {
		t.Error(got)
	}
	add("b", 1, true)
	if got := strings.Join(take(3), " "); got != "c1 a2 b0" {
		t.Error(got)
	}
	if one, ok := s.next(); ok || s.size != 0 || len(s.of) != 0 || len(s.turns) != 0 {
		t.Errorf("%q is left over, %+v", one, s)
	}
	add("eve", maxWaiting, true)
	add("eve", 1, false)
	add("bob", shareWaiting, true)
	add("bob", 1, false)
	for i := range (maxWaitingAll - maxWaiting - shareWaiting) / shareWaiting {
		add(fmt.Sprint("client ", i), shareWaiting, true)
	}
	add("carol", 1, false)
	take(maxWaitingAll)
	add("eve", 1, true)
}

// TestLanesAreShared: whoever has much to be done beside delays itself alone.
func TestLanesAreShared(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer s.Stop()
	for _, l := range []*lane{&s.beside, &s.told} {
		begun, hold, done := make(chan bool), make(chan bool), make(chan string, 102)
		work := func(client string) {
			fails := func(_ commands.Outcome, err error) { t.Error(err) }
			c := &claim{submission: commands.Submission{Actor: client}, done: fails}
			s.queue(l, c, func(*pace) { done <- client })
		}
		s.queue(l, &claim{}, func(*pace) { begun <- true; <-hold })
		<-begun
		for range 100 {
			work("eve")
		}
		work("bob")
		close(hold)
		var order []string
		for range 101 {
			order = append(order, <-done)
		}
		if at := slices.Index(order, "bob"); at != 1 {
			t.Errorf("100 of somebody else were sent before: it is the %dth", at)
		}
	}
}
