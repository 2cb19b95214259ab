package processes_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/projector"
)

// orderWorld is a small world in which claims wait: what is free of each class, what
// each project holds, and how much of a class it may hold.
type orderWorld struct {
	free, most map[string]int64
	held       map[string]map[string]int64
	claims     []orderClaim
}

type orderClaim struct {
	id        ledger.UUID
	project   string
	priority  int64
	sequence  uint64
	amounts   map[string]int64 // of one consumer
	consumers int
}

// orderRules are the rules of the model; each may be broken.
type orderRules struct{ noPriority, noShare, sharesStay, noAge, behindAll, oneClass bool }

func randomOrderWorld(r *rand.Rand) *orderWorld {
	w := &orderWorld{free: make(map[string]int64), most: make(map[string]int64), held: make(map[string]map[string]int64)}
	classes, projects := []string{"VCPU", "MEMORY_MB"}, []string{"p", "q", "r"}
	for _, class := range classes {
		w.free[class] = r.Int64N(12)
	}
	for _, project := range projects {
		w.held[project], w.most[project] = make(map[string]int64), 100
		for _, class := range classes {
			if r.IntN(3) > 0 {
				w.held[project][class] = r.Int64N(5)
			}
		}
		if r.IntN(4) == 0 {
			w.most[project] = r.Int64N(6)
		}
	}
	for i := range 1 + r.IntN(8) {
		c := orderClaim{
			project: projects[r.IntN(len(projects))], priority: r.Int64N(3) - 1, sequence: uint64(1 + r.IntN(6)),
			amounts: make(map[string]int64), consumers: 1 + r.IntN(2),
		}
		c.id[0], c.id[1], c.id[15] = byte(r.IntN(256)), byte(i), 1
		from, upTo := r.IntN(2), 1+r.IntN(2)
		for _, class := range classes[min(from, upTo-1):upTo] {
			c.amounts[class] = 1 + r.Int64N(3)
		}
		w.claims = append(w.claims, c)
	}
	return w
}

// outcome gives a claim what it asks for, where there is that much.
func (w *orderWorld) outcome(c *orderClaim) (commands.Code, bool) {
	for class, amount := range c.amounts {
		if w.free[class] < amount*int64(c.consumers) {
			return commands.CodeNoCandidates, false
		}
	}
	for class, amount := range c.amounts {
		if w.held[c.project][class]+amount*int64(c.consumers) > w.most[c.project] {
			return commands.CodeOverLimit, false
		}
	}
	for class, amount := range c.amounts {
		w.free[class] -= amount * int64(c.consumers)
		w.held[c.project][class] += amount * int64(c.consumers)
	}
	return "", true
}

func (w *orderWorld) copy() *orderWorld {
	c := &orderWorld{free: maps.Clone(w.free), most: w.most, held: make(map[string]map[string]int64), claims: w.claims}
	for project, held := range w.held {
		c.held[project] = maps.Clone(held)
	}
	return c
}

// model says who is granted, in which order: after each try it looks at all claims that
// were not tried. Shares are fractions of whole numbers, compared without rounding.
func (w *orderWorld) model(rules orderRules) (granted []ledger.UUID) {
	w = w.copy()
	totals := make(map[string]int64)
	waiting := make(map[string]bool) // projects with claims that wait
	for _, c := range w.claims {
		waiting[c.project] = true
	}
	for project, held := range w.held {
		for class, amount := range held {
			if waiting[project] {
				totals[class] += amount
			}
		}
	}
	first := w.copy().held
	share := func(c *orderClaim) (num, den int64) {
		held, den := w.held, int64(1)
		if rules.sharesStay {
			held = first
		}
		for _, class := range []string{"MEMORY_MB", "VCPU"} {
			if _, asks := c.amounts[class]; !asks || rules.oneClass && class == "VCPU" {
				continue
			}
			if n, d := held[c.project][class], max(1, totals[class]); n*den > num*d {
				num, den = n, d
			}
		}
		return num, den
	}
	before := func(a, b *orderClaim) bool {
		if a.priority != b.priority && !rules.noPriority {
			return a.priority > b.priority
		}
		an, ad := share(a)
		bn, bd := share(b)
		if an*bd != bn*ad && !rules.noShare {
			return an*bd < bn*ad
		}
		if a.sequence != b.sequence && !rules.noAge {
			return a.sequence < b.sequence
		}
		return a.id.Compare(b.id) < 0
	}
	left := slices.Clone(w.claims)
	for len(left) > 0 {
		best := 0
		for i := range left {
			if before(&left[i], &left[best]) {
				best = i
			}
		}
		next := left[best]
		left = slices.Delete(left, best, best+1)
		if _, fits := w.outcome(&next); fits {
			granted = append(granted, next.id)
		} else if rules.behindAll {
			return granted
		}
	}
	return granted
}

// real has the ClaimGranter's own code try the claims.
func (w *orderWorld) real(t *testing.T) (granted []ledger.UUID) {
	t.Helper()
	w = w.copy()
	held := make(map[string]map[string]int64)
	byID := make(map[ledger.UUID]*orderClaim)
	var claims []*projector.WaitingClaim
	for i := range w.claims {
		c := &w.claims[i]
		byID[c.id] = c
		held[c.project] = maps.Clone(w.held[c.project])
		text, err := json.Marshal(&commands.Claim{
			Requests: []commands.CandidateRequest{{Groups: []commands.RequestGroup{{Resources: c.amounts}}}},
			For:      []commands.ClaimConsumer{{Consumer: c.id, Project: c.project, User: "u", Count: c.consumers}}, Wait: 60,
		})
		if err != nil {
			t.Fatal(err)
		}
		asked, err := ledger.ParseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, &projector.WaitingClaim{WaitingClaim: ledger.WaitingClaim{
			UUID: c.id, Sequence: c.sequence, Project: c.project, Priority: c.priority, Asked: asked,
		}})
	}
	err := processes.TryInOrder(held, claims, func(id ledger.UUID) commands.Outcome {
		if slices.Contains(granted, id) {
			t.Fatalf("claim %s is tried again after it was granted", id)
		}
		code, fits := w.outcome(byID[id])
		if !fits {
			return commands.Outcome{Rejection: &commands.Rejection{Code: code}}
		}
		granted = append(granted, id)
		return commands.Outcome{Events: []ledger.Event{ledger.AllocationsClaimed{}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	return granted
}

// TestOrderModel: in random small worlds, claims are granted in the order that a model
// says that looks at all of them after each try. Models with one rule broken differ, so
// each rule is seen to hold.
func TestOrderModel(t *testing.T) {
	t.Parallel()
	worlds := 10_000
	if testing.Short() || ledgertest.Raced {
		worlds = 3_000
	}
	broken := map[string]orderRules{
		"no priority": {noPriority: true}, "no share": {noShare: true}, "what is given does not count": {sharesStay: true},
		"no age": {noAge: true}, "all wait behind one that does not fit": {behindAll: true},
		"not the largest share of all classes": {oneClass: true},
	}
	differ := make(map[string]int)
	for seed := range uint64(worlds) {
		w := randomOrderWorld(rand.New(rand.NewPCG(seed, 1)))
		got, want := w.real(t), w.model(orderRules{})
		if !slices.Equal(got, want) {
			t.Fatalf("world %d, %+v:\ngranted %v\nmodel   %v", seed, w, got, want)
		}
		for name, rules := range broken {
			if !slices.Equal(got, w.model(rules)) {
				differ[name]++
			}
		}
	}
	for name := range broken {
		if differ[name] < worlds/1000 {
			t.Errorf("a model with %q agrees in all but %d of %d worlds: the worlds cannot tell", name, differ[name], worlds)
		}
	}
	t.Logf("%d worlds; broken models differ in: %v", worlds, differ)
}
