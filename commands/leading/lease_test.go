package leading

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
)

// TestTenure: a lease is valid for its length from before its renewal. A caller
// that waits for it learns of a renewal, of its loss, and that it must quit.
func TestTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now time.Duration
		begun := newLeaseHolder(commands.NewID(), 3*time.Second, func() time.Duration { return now })
		never := make(chan struct{})
		quit := make(chan struct{})
		close(quit)
		valid := func() bool { return begun.Await(quit) == nil }
		if valid() {
			t.Error("valid before it was renewed")
		}
		now = 10 * time.Second
		begun.extend(8 * time.Second)
		for at, want := range map[time.Duration]bool{10: true, 10_999: true, 11_000: false, 20_000: false} {
			if now = at * time.Millisecond; at == 10 {
				now = 10 * time.Second
			}
			if got := valid(); got != want {
				t.Errorf("at %v: valid %v", now, got)
			}
		}
		begun.extend(7 * time.Second) // a late answer does not shorten the lease
		now = 10_900 * time.Millisecond
		if !valid() {
			t.Error("a renewal that was begun before the last one made it shorter")
		}
		now = 12 * time.Second
		answered := make(chan error, 1)
		go func() { answered <- begun.Await(never) }()
		synctest.Wait()
		begun.extend(12 * time.Second)
		synctest.Wait()
		if err := <-answered; err != nil {
			t.Error(err)
		}
		now = 20 * time.Second
		go func() { answered <- begun.Await(never) }()
		synctest.Wait()
		begun.lose()
		begun.lose()
		if err := <-answered; !errors.Is(err, commands.ErrNotLeading) {
			t.Errorf("after it was lost: %v", err)
		}
		begun.extend(20 * time.Second)
		if valid() {
			t.Error("valid after it was lost")
		}
	})
}

// TestQuestions: a read that comes while a question is under way waits for the next question, because the answer to
// the first may not hold what the read's client was told before.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var qs questions
		answers := make(chan uint64)
		asked := 0
		ask := func() (uint64, error) {
			asked++
			return <-answers, nil
		}
		first := qs.join(ask)
		synctest.Wait()
		second, third := qs.join(ask), qs.join(ask)
		if second == first || second != third {
			t.Error("who came later shares a question that was put before, or does not share the next")
		}
		answers <- 1
		synctest.Wait()
		answers <- 2
		<-first.done
		<-third.done
		if first.sequence != 1 || third.sequence != 2 || asked != 2 {
			t.Errorf("%d and %d in %d questions", first.sequence, third.sequence, asked)
		}
		synctest.Wait()
		fourth := qs.join(ask)
		answers <- 3
		if <-fourth.done; fourth.sequence != 3 {
			t.Errorf("after a rest: %d", fourth.sequence)
		}
	})
}

// at are read models as of a sequence.
type at struct {
	Models
	sequence uint64
}

func (a at) Checkpoint() ledger.Head { return ledger.Head{Sequence: a.sequence} }

// TestAheadOfTheLeader: what a replica has read in the log as it started, or as it tried to lead, counts as known
// only when a leader with a valid lease has told of it. What it lacks is told with the time for which it does.
func TestAheadOfTheLeader(t *testing.T) {
	now := 10 * time.Second
	r := &Replica{cfg: Config{Models: at{sequence: 7}}, clock: func() time.Duration { return now }}
	r.view.changed = make(chan struct{})
	term := &Term{leaseHolder: newLeaseHolder(commands.NewID(), time.Second, r.clock), r: r}
	ahead := func(when string, want bool) {
		t.Helper()
		if got := r.Ahead(); got != want {
			t.Errorf("%s: ahead is %v", when, got)
		}
	}
	ahead("after the start", true)
	r.view.note(announcement{Sequence: 6}, now)
	ahead("when a leader knows less", true)
	r.view.note(announcement{Sequence: term.knows()}, now)
	ahead("when a leader without a lease has read as much", true)
	r.leading.Store(term)
	ahead("while it leads", false)
	r.leading.Store(nil)
	term.extend(now)
	r.view.note(announcement{Sequence: term.knows()}, now)
	ahead("when a leader knows as much", false)
	r.view.note(announcement{Sequence: 9}, now)
	for _, want := range []time.Duration{0, time.Second} {
		if commits, since := r.Lag(); commits != 2 || since != want {
			t.Errorf("it lacks %d commits for %v, not 2 for %v", commits, since, want)
		}
		now += time.Second
	}
}

// TestLeaseIsFreeOnlyAfterItsTime: which replica may take the lease, and when.
func TestLeaseIsFreeOnlyAfterItsTime(t *testing.T) {
	const length = 3 * time.Second
	other, own, third := commands.NewID(), commands.NewID(), commands.NewID()
	now := 100 * time.Second
	r := &Replica{cfg: Config{Name: "own", Lease: length}, instance: own, clock: func() time.Duration { return now }}
	for name, c := range map[string]struct {
		now      lease
		revision uint64
		seen     time.Duration // ago
		term     time.Duration // ago
		of       ledger.UUID   // who began that term; nil: the lease's holder
		want     bool
	}{
		"it was never held":               {want: true},
		"renewed just now":                {now: lease{Instance: other}, revision: 1, term: time.Hour},
		"silent for its length":           {now: lease{Instance: other}, revision: 1, seen: length, term: time.Hour},
		"silent for a tenth more":         {now: lease{Instance: other}, revision: 1, seen: length + length/10, term: time.Hour, want: true},
		"silent, but begun in the log":    {now: lease{Instance: other}, revision: 1, seen: time.Hour, term: length},
		"given back to any replica":       {now: lease{Instance: other, Released: true}, revision: 1, want: true},
		"given back to this one":          {now: lease{Instance: other, Released: true, Successor: "own"}, revision: 1, want: true},
		"given back to another":           {now: lease{Instance: other, Released: true, Successor: "x"}, revision: 1},
		"given back to one that is away":  {now: lease{Instance: other, Released: true, Successor: "x"}, revision: 1, seen: spread, want: true},
		"its own, of a term that is over": {now: lease{Instance: own}, revision: 1, want: true},
		"of this one's process before":    {now: lease{Leader: "own", Instance: other}, revision: 1, term: time.Hour},
		"its own, given back to another":  {now: lease{Instance: own, Released: true, Successor: "x"}, revision: 1},
		"its own, given back to whomever": {now: lease{Instance: own, Released: true}, revision: 1, want: true},
		"of a process before, and silent": {now: lease{Leader: "own", Instance: other}, revision: 1, seen: time.Hour, term: time.Hour, want: true},
		"given back, and not begun":       {now: lease{Instance: own, Released: true}, revision: 2, of: other},
		"given back to this one, and not begun": {
			now: lease{Instance: third, Released: true, Successor: "own"}, revision: 2, of: other, term: length,
		},
		"given back, and not begun for its length": {
			now: lease{Instance: third, Released: true}, revision: 2, of: other, term: length + length/10, want: true,
		},
		"its own, not begun, and renewed in the log": {now: lease{Instance: own}, revision: 2, of: other},
		"begun long ago, and renewed just":           {now: lease{Instance: other}, revision: 9, seen: time.Millisecond, term: time.Hour},
	} {
		if c.of.IsNil() {
			c.of = c.now.Instance
		}
		r.view.folded.Store(&foldedTerm{ledger.Term{Number: 7, Instance: c.of}, now - c.term})
		candidate := candidate{r: r, now: c.now, revision: c.revision, seen: now - c.seen}
		if got := candidate.leaseFree(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestQuorate: a stream's servers count as well if one leads and most of them are there.
func TestQuorate(t *testing.T) {
	well, lags, away := jetstream.Peer{Current: true}, jetstream.Peer{}, jetstream.Peer{Current: true, Offline: true}
	for name, c := range map[string]struct {
		peers jetstream.Peers
		want  bool
	}{
		"all":           {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{well, well}}, true},
		"one away":      {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{well, away}}, true},
		"one lags":      {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{lags, well}}, true},
		"alone":         {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{away, away}}, false},
		"others lag":    {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{lags, lags}}, false},
		"none leads":    {jetstream.Peers{Others: []jetstream.Peer{well, well}}, false},
		"one that lags": {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{lags, away}}, false},
	} {
		if got := quorate(c.peers); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUpToDate: the leadership of a stream is given only to a server that has all of it.
func TestUpToDate(t *testing.T) {
	peers := jetstream.Peers{Leader: "1", Others: []jetstream.Peer{
		{Name: "2", Current: true}, {Name: "3", Current: true, Lag: 1}, {Name: "4", Current: true, Offline: true}, {Name: "5"},
	}}
	for name, want := range map[string]bool{"1": false, "2": true, "3": false, "4": false, "5": false, "6": false} {
		if got := upToDate(peers, name); got != want {
			t.Errorf("server %s: %v", name, got)
		}
	}
}
