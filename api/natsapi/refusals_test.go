package natsapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// told takes refusals out, as the goroutine does that tells clients, as long as some are
// due.
func (r *refusals) told() (replies []string) {
	for {
		r.mu.Lock()
		due := r.isDue()
		r.mu.Unlock()
		if !due {
			return replies
		}
		for _, one := range r.next() {
			replies = append(replies, one.reply)
		}
	}
}

func addAll(t *testing.T, r *refusals, client string, many int) (floods int) {
	t.Helper()
	for n := range many {
		taken, isFlood := r.add(client, refusal{reply: fmt.Sprint(client, "/", n)})
		if !taken {
			t.Fatalf("%s: refusal %d is not taken", client, n)
		}
		if isFlood {
			floods++
		}
	}
	return floods
}

// TestRefusalsInTurn: whoever is refused a thousand times delays nobody who is refused
// once, and each is told everything, in order.
func TestRefusalsInTurn(t *testing.T) {
	t.Parallel()
	r := newRefusals()
	addAll(t, r, "client:eve 1", 1000)
	addAll(t, r, "client:bob 2", 2)
	told := r.told()
	if at := slices.Index(told, "client:bob 2/1"); len(told) != 1002 || at < 0 || at > 4 {
		t.Errorf("of %d, bob's last one was told after %d", len(told), at)
	}
	eves := slices.DeleteFunc(told, func(reply string) bool { return strings.HasPrefix(reply, "client:bob") })
	for n, reply := range eves {
		if reply != fmt.Sprint("client:eve 1/", n) {
			t.Fatalf("%s was told after %d others", reply, n)
		}
	}
}

// TestRefusalsOfFloods: a client is found out by its own refusals alone, and what would
// take too much memory is told at once.
func TestRefusalsOfFloods(t *testing.T) {
	t.Parallel()
	r := newRefusals()
	for n := range mostUntoldAll / mostUntold {
		if floods := addAll(t, r, fmt.Sprint("client:", n, " 1"), mostUntold); floods > 0 {
			t.Fatalf("client %d floods, and has no more than it may", n)
		}
	}
	for client, want := range map[string]bool{"client:0 1": true, "client:bob 1": false} {
		if taken, isFlood := r.add(client, refusal{}); taken || isFlood != want {
			t.Errorf("%s: taken %v, floods %v, of too many", client, taken, isFlood)
		}
	}
	if told := r.told(); len(told) != mostUntoldAll {
		t.Errorf("%d of %d were told", len(told), mostUntoldAll)
	}
	if floods := addAll(t, r, "client:0 1", mostUntold+3); floods != 3 {
		t.Errorf("found out %d times by three more than may be", floods)
	}
}

// TestRefusalsOfGone: what a client had sent before it was cut off is refused without a
// look for a while, and told after that, also when somebody else is cut off meanwhile,
// or, at the latest, at the end.
func TestRefusalsOfGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		addAll(t, r, "client:eve 1", 10)
		addAll(t, r, "client:evelyn 1", 1)
		r.leave("client:eve")
		addAll(t, r, "client:eve 1", 10)
		if told := r.told(); !slices.Equal(told, []string{"client:evelyn 1/0"}) {
			t.Errorf("%v are told, and not whoever is there", told)
		}
		if !r.hasGone("client:eve 7") || r.hasGone("client:evelyn 1") || r.hasGone("client:bob 1") {
			t.Error("somebody else is gone")
		}
		time.Sleep(goneFor / 2)
		r.leave("client:eve")
		r.leave("client:mallory")
		time.Sleep(goneFor * 3 / 4)
		if told := r.told(); len(told) > 0 || !r.hasGone("client:eve 1") {
			t.Errorf("%d are told too soon, or eve is there again", len(told))
		}
		time.Sleep(goneFor / 2)
		if told := r.told(); len(told) != 20 || r.hasGone("client:eve 1") {
			t.Errorf("%d of 20 are told, or eve is not there again", len(told))
		}
		r.leave("client:eve")
		addAll(t, r, "client:eve 1", 3)
		r.close()
		if told := r.told(); len(told) != 3 {
			t.Errorf("%d of 3 are told at the end", len(told))
		}
		if some := r.next(); some != nil {
			t.Errorf("%v after the end", some)
		}
		if taken, _ := r.add("client:bob 1", refusal{}); taken {
			t.Error("one is taken after the end")
		}
		time.Sleep(goneFor)
	})
}
