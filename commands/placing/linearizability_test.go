package placing_test

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

const (
	players = 5
	rounds  = 16
	noRack  = 1 << 30 // more than the aggregate can take

	// What becomes of limits of the aggregate.
	noRacks, applied, ignored = "none is set", "they are applied", "they are ignored"
)

// move is what a client does with its one consumer.
type move struct {
	kind   string // claim, allocate, release, reshape, limit, rack
	player int
	host   int   // of allocate
	most   int64 // of limit and rack
}

// board is two hosts, where each client's consumer is, the limit of their project, and
// that of the aggregate in which host 1 is.
type board struct {
	at   [players]int // host from 1; 0: it holds nothing
	most int64
	rack int64
}

func (b board) used(host int) (n int64) {
	for _, at := range b.at {
		if at == host {
			n++
		}
	}
	return n
}

func (b board) total() int64 { return b.used(1) + b.used(2) }

// rules are the sequential specification: hosts with capacities, and a limit.
func rules(capacity [3]int64, most int64) porcupine.Model {
	full := func(b board, host int) bool { return b.used(host) >= capacity[host] }
	closed := func(b board, host int) bool { return host == 1 && b.used(1) >= b.rack }
	return porcupine.Model{
		Init: func() any { return board{most: most, rack: noRack} },
		Step: func(state, input, output any) (bool, any) {
			b, m, said := state.(board), input.(move), output.(string)
			after := b
			switch {
			case said == "again": // the caller tries again, and nothing has changed
				return true, b
			case m.kind == "limit":
				after.most = m.most
				return said == "ok", after
			case m.kind == "rack":
				after.rack = m.most
				return said == "ok", after
			case m.kind == "release":
				after.at[m.player] = 0
				return said == "ok", after
			case said == "over_limit":
				return m.kind != "reshape" && b.total() >= b.most, b
			case said == "over_limit of the aggregate":
				switch m.kind {
				case "claim": // there is room but for the limit
					return closed(b, 1) && !full(b, 1) && full(b, 2), b
				case "allocate":
					return closed(b, m.host), b
				}
				return b.at[m.player] == 2 && closed(b, 1), b
			case said == "no_candidates":
				return m.kind == "claim" && full(b, 1) && full(b, 2), b
			case said == "capacity_exceeded" && m.kind == "allocate":
				return full(b, m.host), b
			case said == "capacity_exceeded" && m.kind == "reshape":
				return full(b, 3-b.at[m.player]), b
			}
			var host int
			if _, err := fmt.Sscanf(said, "at %d", &host); err != nil {
				return false, b
			}
			after.at[m.player] = host
			switch m.kind {
			case "claim":
				return b.at[m.player] == 0 && !full(b, host) && !closed(b, host) && b.total() < b.most, after
			case "allocate":
				return b.at[m.player] == 0 && host == m.host && !full(b, host) && !closed(b, host) && b.total() < b.most, after
			}
			return b.at[m.player] == 3-host && !full(b, host) && !closed(b, host), after
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// play has clients claim, allocate, release, reshape and change the limit at
// once, on a log that is slow and unreliable, and returns what they saw.
func play(t *testing.T, seed int64, capacity [3]int64, limited bool, racks string) (history []porcupine.Operation) {
	t.Helper()
	log := &memlog.Log{}
	l := commandstest.Start(t, t.TempDir(), log)
	hosts := [3]ledger.UUID{}
	for i := 1; i < 3; i++ {
		hosts[i] = l.Provider(t, fmt.Sprint(i), units(capacity[i]))
	}
	g := &game{
		t: t, Ledger: l, hosts: hosts, capacity: capacity, limited: limited, racks: racks, rack: commandstest.NewID(),
	}
	l.Accept(t, &commands.ReplaceProviderAggregates{Provider: hosts[1], Aggregates: []ledger.UUID{g.rack}})
	if limited {
		g.make(move{kind: "limit", most: 3})
	}
	random := rand.New(rand.NewSource(seed))
	log.Decide = func(uint64) memlog.Fault {
		if random.Intn(5) > 0 {
			return memlog.None
		}
		return memlog.Fault(1 + random.Intn(3))
	}
	var mu sync.Mutex
	begun := time.Now()
	var all sync.WaitGroup
	for player := range players {
		g.consumers[player] = commandstest.NewID()
		all.Go(func() {
			random := rand.New(rand.NewSource(seed*100 + int64(player)))
			at := 0
			for range rounds {
				m := drawMove(random, player, at, racks)
				call := time.Since(begun).Nanoseconds()
				said := g.make(m)
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: player, Input: m, Output: said, Call: call, Return: time.Since(begun).Nanoseconds(),
				})
				mu.Unlock()
				if m.kind == "release" {
					at = 0
				}
				_, _ = fmt.Sscanf(said, "at %d", &at) // another outcome leaves it where it is
			}
		})
	}
	all.Wait()
	return history
}

func drawMove(random *rand.Rand, player, at int, racks string) move {
	m := move{player: player, host: 1 + random.Intn(2), most: int64(2 + random.Intn(3))}
	if racks != noRacks && random.Intn(6) == 0 {
		m.kind, m.most = "rack", int64(random.Intn(4))
		return m
	}
	switch n := random.Intn(10); {
	case n == 0:
		m.kind = "limit"
	case at == 0 && n < 7:
		m.kind = "claim"
	case at == 0:
		m.kind = "allocate"
	case n < 5:
		m.kind = "reshape"
	default:
		m.kind = "release"
	}
	return m
}

type game struct {
	*commandstest.Ledger
	t         *testing.T
	hosts     [3]ledger.UUID
	capacity  [3]int64
	consumers [players]ledger.UUID
	limited   bool // whether limits are set
	racks     string
	rack      ledger.UUID
}

// make carries a move out, and says what came of it.
func (g *game) make(m move) string {
	var c commands.Command
	consumer := g.consumers[m.player]
	switch m.kind {
	case "claim":
		c = claimOf(consumer, cores(1))
	case "allocate":
		allocate := commandstest.Allocate(consumer, g.hosts[m.host], "VCPU", 1)
		allocate.Allocations[0].Project = "p"
		c = allocate
	case "release":
		c = &commands.ReleaseConsumer{Consumer: consumer}
	case "reshape":
		c = g.reshape(consumer)
	case "limit":
		if !g.limited {
			return "ok"
		}
		c = &commands.SetLimit{Project: "p", Class: "VCPU", Most: &m.most}
	case "rack":
		if g.racks == ignored {
			return "ok"
		}
		c = &commands.SetLimit{Aggregate: g.rack, Class: "VCPU", Most: &m.most}
	}
	id := commandstest.NewID()
	for {
		outcome, err := g.Writer.Submit(context.Background(), commands.Submission{ID: id, Actor: "test", Command: c})
		switch {
		case err != nil:
			continue // the same id again is safe
		case outcome.Rejection == nil && (m.kind == "limit" || m.kind == "rack" || m.kind == "release"):
			return "ok"
		case outcome.Rejection == nil:
			return fmt.Sprint("at ", g.find(consumer))
		case outcome.Rejection.Code == demand.CodeClaimBudget, outcome.Rejection.Code == demand.CodeProviderConflict:
			return "again"
		case outcome.Rejection.Facts.Aggregate != nil:
			return "over_limit of the aggregate"
		}
		return string(outcome.Rejection.Code)
	}
}

// find is where a consumer is. No other client moves it.
func (g *game) find(consumer ledger.UUID) int {
	held, _, err := g.Views.View().Consumer(consumer)
	if err != nil || held == nil {
		g.t.Errorf("consumer %s: %v, %v", consumer, held, err)
		return 0
	}
	if held.Allocations[0].Provider == g.hosts[1] {
		return 1
	}
	return 2
}

// reshape moves a consumer to the other host, with both hosts' inventories.
func (g *game) reshape(consumer ledger.UUID) *commands.Reshape {
	view := g.Views.View()
	r := &commands.Reshape{}
	for i := 1; i < 3; i++ {
		p, _, err := view.Provider(g.hosts[i])
		if err != nil {
			g.t.Error(err)
			return r
		}
		r.Inventories = append(r.Inventories, commands.ProviderInventories{
			Provider: g.hosts[i], Generation: &p.Generation,
			Inventories: []commands.Inventory{{Class: "VCPU", Total: g.capacity[i]}},
		})
	}
	r.Allocations = commandstest.Allocate(consumer, g.hosts[3-g.find(consumer)], "VCPU", 1).Allocations
	r.Allocations[0].Project, r.Allocations[0].AnyGeneration = "p", true
	return r
}

// TestLinearizable: an order explains what clients see of claims, allocations, limits, those of an aggregate, too,
// and reshapes together. Where limits are not checked, or hosts take more than they may, none does.
func TestLinearizable(t *testing.T) {
	capacity := [3]int64{0, 2, 2}
	for seed := range int64(4) {
		history := play(t, seed+1, capacity, true, applied)
		said := map[string]int{}
		for _, op := range history {
			said[op.Input.(move).kind+" "+op.Output.(string)]++
		}
		t.Log(said)
		if result := porcupine.CheckOperationsTimeout(rules(capacity, 3), history, time.Minute); result != porcupine.Ok {
			t.Errorf("seed %d: no order explains what the clients saw: %v\n%v", seed, result, said)
		}
	}
	for what, wrong := range map[string]struct {
		capacity [3]int64
		limited  bool
		racks    string
	}{
		"without limits":               {capacity, false, noRacks},
		"with too much room":           {[3]int64{0, 4, 4}, true, noRacks},
		"with an unlike host":          {[3]int64{0, 1, 3}, true, noRacks},
		"without limits of aggregates": {capacity, true, ignored},
	} {
		// Not every history meets what is wrong; most do.
		result := porcupine.Ok
		for seed := int64(5); seed < 25 && result != porcupine.Illegal; seed++ {
			history := play(t, seed, wrong.capacity, wrong.limited, wrong.racks)
			result = porcupine.CheckOperationsTimeout(rules(capacity, 3), history, time.Minute)
		}
		if result != porcupine.Illegal {
			t.Errorf("%s an order is found for every history: %v", what, result)
		}
	}
}
