package placing_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/placing"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/ledger/memlog"
)

func claimOf(consumer ledger.UUID, resources map[string]int64) *commands.Claim {
	return &commands.Claim{Claim: demand.Claim{
		For:      []demand.ClaimConsumer{{Consumer: consumer, Project: "p", User: "u"}},
		Requests: []demand.CandidateRequest{{Groups: []demand.RequestGroup{{Resources: resources}}}},
	}}
}

// cores are so many VCPU.
func cores(n int64) map[string]int64 { return map[string]int64{"VCPU": n} }

// units is an inventory of so many VCPU.
func units(total int64) commands.Inventory { return commands.Inventory{Class: "VCPU", Total: total} }

// oneCore is a claim of a new consumer.
func oneCore() *commands.Claim { return claimOf(commandstest.NewID(), cores(1)) }

func start(t *testing.T) *commandstest.Ledger {
	t.Helper()
	return commandstest.Start(t, t.TempDir(), &memlog.Log{})
}

func claimed(t *testing.T, o commands.Outcome) (list []ledger.AllocationsClaimed) {
	t.Helper()
	for _, event := range o.Events {
		if one, is := event.(ledger.AllocationsClaimed); is {
			list = append(list, one)
		}
	}
	if o.Rejection != nil || len(list) == 0 {
		t.Fatalf("it claimed nothing: %+v", o)
	}
	return list
}

// placesOf are the providers of a claim's consumers.
func placesOf(t *testing.T, o commands.Outcome) (list []ledger.UUID) {
	t.Helper()
	for _, one := range claimed(t, o) {
		list = append(list, one.Allocations[0].Provider)
	}
	return list
}

func codeOf(r *demand.Rejection) demand.Code {
	if r == nil {
		return ""
	}
	return r.Code
}

// refused requires a command to be rejected for a reason.
func refused(t *testing.T, l *commandstest.Ledger, c commands.Command, want demand.Code) {
	t.Helper()
	if o := l.Submit(t, c); codeOf(o.Rejection) != want {
		t.Errorf("it must be rejected with %s: %+v", want, o)
	}
}

func fork(t *testing.T, l *commandstest.Ledger) *ledger.State {
	t.Helper()
	state := commandstest.Must(l.Writer.Fork(context.Background()))
	return state
}

// inAggregate puts a provider into a new aggregate alone.
func inAggregate(t *testing.T, l *commandstest.Ledger, provider ledger.UUID) ledger.UUID {
	t.Helper()
	aggregate := commandstest.NewID()
	l.Accept(t, &commands.ReplaceProviderAggregates{Provider: provider, Aggregates: []ledger.UUID{aggregate}})
	return aggregate
}

// TestClaimsAreShared: a client that has sent many claims delays only its own.
func TestClaimsAreShared(t *testing.T) {
	t.Parallel()
	t.Run("users", func(t *testing.T) {
		testShared(t, func(client string) commands.Submission { return commands.Submission{Actor: client} })
	})
	t.Run("connections", func(t *testing.T) {
		testShared(t, func(client string) commands.Submission { return commands.Submission{Actor: "operator", Client: client} })
	})
}

func testShared(t *testing.T, of func(client string) commands.Submission) {
	t.Helper()
	l := start(t)
	l.Provider(t, "host", units(1000))
	stage := placing.New(placing.Options{Views: l.Views})
	defer stage.Stop()
	const many = 100
	begun, hold, order := make(chan bool), make(chan bool), make(chan string, many+1)
	send := func(client string, decide commands.Decider) {
		submission := of(client)
		submission.ID, submission.Command = commands.NewID(), oneCore()
		stage.Search(submission, decide, func(commands.Outcome, error) {})
	}
	send("eve", func(commands.Submission, func(commands.Outcome, error)) { begun <- true; <-hold }) // the search waits for it
	<-begun
	for _, client := range append(slices.Repeat([]string{"eve"}, many), "bob") {
		send(client, func(commands.Submission, func(commands.Outcome, error)) { order <- client })
	}
	close(hold)
	var came []string
	for range many + 1 {
		came = append(came, <-order)
	}
	if at := slices.Index(came, "bob"); at > 1 {
		t.Errorf("behind %d claims of another client", at)
	}
}

// TestGivenUpSearchesAnswerAtOnce: when the searches are given up, waiting claims are answered at once, and
// so are new ones.
func TestGivenUpSearchesAnswerAtOnce(t *testing.T) {
	t.Parallel()
	l := start(t)
	l.Provider(t, "host", units(1000))
	stage := placing.New(placing.Options{Views: l.Views})
	begun, hold, told := make(chan bool), make(chan bool), make(chan error, 11)
	send := func(decide commands.Decider, done func(commands.Outcome, error)) {
		c := oneCore()
		stage.Search(commands.Submission{ID: commands.NewID(), Actor: "test", Command: c}, decide, done)
	}
	nothing := func(commands.Outcome, error) {}
	send(func(commands.Submission, func(commands.Outcome, error)) { begun <- true; <-hold }, nothing)
	<-begun
	waits := func() {
		decide := func(commands.Submission, func(commands.Outcome, error)) { t.Error("it was decided") }
		send(decide, func(_ commands.Outcome, err error) { told <- err })
	}
	for range 10 {
		waits()
	}
	stage.GiveUp()
	close(hold)
	stage.Stop()
	waits()
	for range 11 {
		if err := <-told; !errors.Is(err, commands.ErrStopped) {
			t.Error(err)
		}
	}
}

// TestClaimsAgree carries random claims out, one after the other, and compares
// each with the best of all candidates in the State before it.
func TestClaimsAgree(t *testing.T) {
	t.Parallel()
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := start(t)
		defer l.Stop(t)
		for _, c := range commandstest.SomeThings() {
			l.Submit(t, c)
		}
		for range 20 {
			if rapid.Bool().Draw(rt, "other") {
				l.Submit(t, commandstest.RandomProviderCommand(rt))
				continue
			}
			claim := commandstest.RandomClaim(rt)
			if claim.Prefer == nil {
				claim.Prefer = &demand.ClaimPreference{}
			}
			claim.Prefer.Seed = new(uint64(7))
			// It searches the State, provider by provider.
			searching := commands.Searching(claim, claiming.InState)
			want, rejection := commands.Decide(commands.Submission{Command: searching}, fork(t, l))
			got := l.Submit(t, claim)
			if codeOf(rejection) != codeOf(got.Rejection) {
				rt.Fatalf("the model says %v, the ledger %v", rejection, got.Rejection)
			}
			if rejection != nil {
				continue
			}
			accepted++
			if got, want := facts(got.Events), facts(want); !reflect.DeepEqual(got, want) {
				rt.Fatalf("got\n%+v\nwant\n%+v", got, want)
			}
		}
	})
	if accepted == 0 && !ledgertest.Raced {
		t.Error("no claims were accepted")
	}
}

// facts are events without what differs from search to search.
func facts(events []ledger.Event) (list []ledger.Event) {
	for _, event := range events {
		if one, is := event.(ledger.AllocationsClaimed); is {
			one.AsOf = 0
			event = one
		}
		list = append(list, event)
	}
	return list
}

// TestOwnIsTakenOffOnce: what a consumer of a gang holds in a limited aggregate is taken
// off for the gang once, and not for each of its consumers.
func TestOwnIsTakenOffOnce(t *testing.T) {
	l := start(t)
	inside := l.Provider(t, "in", units(100))
	rack := inAggregate(t, l, inside)
	l.Provider(t, "out", units(100))
	l.Accept(t, &commands.SetLimit{Aggregate: rack, Class: "VCPU", Most: new(int64(2))})
	first := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(first, inside, "VCPU", 1))
	c := claimOf(first, cores(2))
	c.For[0].AnyGeneration = true
	c.For = append(c.For, demand.ClaimConsumer{Consumer: commandstest.NewID(), Request: 1, Project: "p", User: "u"})
	c.Requests = append(c.Requests, claimOf(first, cores(1)).Requests...)
	c.Prefer = &demand.ClaimPreference{Aggregates: []demand.AggregatePreference{{Aggregate: rack, Weight: 1}}}
	if got := placesOf(t, l.Submit(t, c)); len(got) != 2 || got[0] != inside || got[1] == inside {
		t.Errorf("%+v", got)
	}
}

// TestClaimsKeepConsumersApart: however many claim at once, consumers that forbid each other are
// never near each other, and those that require each other always are.
func TestClaimsKeepConsumersApart(t *testing.T) {
	for _, by := range []string{"provider", "tree", "aggregate"} {
		t.Run(by, func(t *testing.T) {
			const racks, hosts = 4, 12
			l := start(t)
			rackOf := map[ledger.UUID]ledger.UUID{}
			aggregates := make([]ledger.UUID, racks)
			for i := range aggregates {
				aggregates[i] = commandstest.NewID()
			}
			for i := range hosts {
				id := l.Provider(t, fmt.Sprint("host-", i), units(8))
				l.Accept(t, &commands.ReplaceProviderAggregates{Provider: id, Aggregates: aggregates[i%racks : i%racks+1]})
				rackOf[id] = aggregates[i%racks]
				if by != "aggregate" {
					rackOf[id] = id
				}
			}
			places := map[string]int{"provider": hosts, "tree": hosts, "aggregate": racks}[by]
			apart := claimAtOnce(t, l, places+3, demand.NearConsumers{By: by, Rule: "forbid"})
			taken := map[ledger.UUID]bool{}
			for _, provider := range apart {
				if taken[rackOf[provider]] {
					t.Errorf("two consumers are in %s", rackOf[provider])
				}
				taken[rackOf[provider]] = true
			}
			if len(apart) != places {
				t.Errorf("%d of %d places are taken", len(apart), places)
			}
			together := claimAtOnce(t, l, 4, demand.NearConsumers{By: by, Rule: "require"})
			for _, provider := range together {
				if rackOf[provider] != rackOf[together[0]] {
					t.Errorf("%s and %s are apart", provider, together[0])
				}
			}
			if len(together) != 4 {
				t.Errorf("only %d are together", len(together))
			}
		})
	}
}

// claimAtOnce has consumers, each of which names all others, claim in parallel,
// and returns where those are that got something. One that is told that others
// were faster, or that what it needs is only assumed to be taken, tries again.
func claimAtOnce(t *testing.T, l *commandstest.Ledger, n int, near demand.NearConsumers) (providers []ledger.UUID) {
	t.Helper()
	ids := make([]ledger.UUID, n)
	for i := range ids {
		ids[i] = commandstest.NewID()
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			c := claimOf(id, cores(1))
			one := near
			one.Consumers = slices.Concat(ids[:i], ids[i+1:])
			c.Prefer = &demand.ClaimPreference{Near: []demand.NearConsumers{one}}
			for range 100 {
				o := l.Submit(t, c)
				switch codeOf(o.Rejection) {
				case demand.CodeClaimBudget:
					continue
				case "":
					mu.Lock()
					providers = append(providers, placesOf(t, o)...)
					mu.Unlock()
				case demand.CodeNoCandidates:
				default:
					t.Error(o.Rejection)
				}
				return
			}
			t.Error("others were faster a hundred times")
		})
	}
	all.Wait()
	return providers
}

// TestBatchWithClaims: claims in a batch see what those before them chose.
func TestBatchWithClaims(t *testing.T) {
	l := start(t)
	l.Providers(t, 2, units(1))
	batch := func(n int) *commands.Batch {
		b := &commands.Batch{Commands: []commands.Command{&commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", n)}}}
		for range n {
			b.Commands = append(b.Commands, oneCore())
		}
		return b
	}
	refused(t, l, batch(3), demand.CodeNoCandidates)
	if got := placesOf(t, l.Submit(t, batch(2))); got[0] == got[1] {
		t.Errorf("both got %v", got)
	}
}

// TestPreferenceInTheBatch: a claim sees the preferences that the commands before it in
// its batch set, change and remove, and not those behind it.
func TestPreferenceInTheBatch(t *testing.T) {
	l := start(t)
	small := l.Provider(t, "small", units(8))
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), small, "VCPU", 4))
	large := l.Provider(t, "large", units(800))
	set := func(order string) *commands.SetPreference {
		return &commands.SetPreference{Name: "gold", Prefer: &demand.ClaimPreference{Order: order}}
	}
	by := func() *commands.Claim {
		c := oneCore()
		c.Prefer = &demand.ClaimPreference{Name: "gold"}
		return c
	}
	batch := func(list ...commands.Command) *commands.Batch { return &commands.Batch{Commands: list} }
	refused(t, l, batch(by(), set(demand.OrderPack)), demand.CodePreferenceUnknown)
	refused(t, l, batch(set(demand.OrderPack), &commands.SetPreference{Name: "gold"}, by()), demand.CodePreferenceUnknown)
	got := placesOf(t, l.Submit(t, batch(set(demand.OrderPack), by(), set(demand.OrderSpread), by())))
	got = append(got, placesOf(t, l.Submit(t, by()))...)
	if !slices.Equal(got, []ledger.UUID{small, large, large}) {
		t.Errorf("got %v", got)
	}
}

// TestBudgetOrImpossible: that a gang cannot be placed is said only where everything was
// tried.
func TestBudgetOrImpossible(t *testing.T) {
	for hosts, want := range map[int]demand.Code{3: demand.CodeNoCandidates, 20: demand.CodeClaimBudget} {
		l := start(t)
		l.Providers(t, hosts, units(8))
		l.Provider(t, "last", commands.Inventory{Class: "DISK_GB", Total: 8})
		c := oneCore()
		c.Requests = append(c.Requests, claimOf(ledger.UUID{}, map[string]int64{"DISK_GB": 1}).Requests...)
		c.For = append(c.For, demand.ClaimConsumer{Consumer: commandstest.NewID(), Request: 1, Project: "p", User: "u"})
		c.Gang = []demand.GangRule{{By: "provider", Rule: "together"}}
		_, rejection := commands.Decide(commands.Submission{Command: commands.Searching(c, claiming.InState)}, fork(t, l))
		if got := codeOf(rejection); got != want {
			t.Errorf("%d hosts: %q, want %q", hosts, got, want)
		}
	}
}

// TestClaimsOfDevices: whole hosts are claimed until none is left, under every preference,
// and the next claim is told that there is nothing.
func TestClaimsOfDevices(t *testing.T) {
	l := start(t)
	for h := range 10 {
		host := l.Provider(t, fmt.Sprint("host-", h), units(64))
		for i := range 8 {
			id := commandstest.NewID()
			l.Accept(t, &commands.CreateProvider{Provider: id, Name: fmt.Sprint(h, "-", i), Parent: host})
			l.Accept(t, &commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{{Class: "PGPU", Total: 1}}})
		}
	}
	devices := func(n int, order string) *commands.Claim {
		return &commands.Claim{Claim: *commandstest.ClaimOfDevices(n, 1, order)}
	}
	for range 2 { // one of the hosts is not whole any more, or two
		l.Accept(t, devices(1, demand.OrderPack))
	}
	for i := range 8 {
		c := devices(8, []string{demand.OrderSpread, demand.OrderPack, demand.OrderRandom}[i%3])
		c.Alternates = 2
		roots := map[ledger.UUID]bool{}
		for _, a := range claimed(t, l.Submit(t, c))[0].Allocations {
			p, _, err := l.Views.View().Provider(a.Provider)
			ledgertest.OK(t, err)
			roots[p.Root] = true
		}
		if len(roots) != 1 {
			t.Errorf("the devices are of %d hosts", len(roots))
		}
	}
	for range 2 { // the two were on one host, or on two
		o := l.Submit(t, devices(8, demand.OrderSpread))
		if o.Rejection != nil && o.Rejection.Code != demand.CodeNoCandidates {
			t.Errorf("%+v", o.Rejection)
		}
	}
	refused(t, l, devices(8, demand.OrderPack), demand.CodeNoCandidates)
}

// TestGangAfterItsTopology: a gang stands in the topology that its batch has set, and in none that it
// has removed.
func TestGangAfterItsTopology(t *testing.T) {
	l := start(t)
	rack := inAggregate(t, l, l.Provider(t, "host", commands.Inventory{Class: "PGPU", Total: 8}))
	set := &commands.SetTopology{Name: "fabric", Topology: &demand.Topology{
		Levels: []string{"rack"}, Members: map[string]demand.TopologyMember{rack.String(): {Level: "rack", Name: "r"}},
	}}
	gang := func() *commands.Claim {
		c := commandstest.ClaimOfDevices(1, 2, demand.OrderPack)
		c.Gang = []demand.GangRule{{Topology: "fabric", Within: demand.Smallest}}
		return &commands.Claim{Claim: *c}
	}
	l.Accept(t, &commands.Batch{Commands: []commands.Command{set, gang()}})
	l.Accept(t, gang())
	without := &commands.Batch{Commands: []commands.Command{&commands.SetTopology{Name: "fabric"}, gang()}}
	refused(t, l, without, demand.CodeTopologyUnknown)
}
