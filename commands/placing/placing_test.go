package placing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
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

func fork(t *testing.T, l *commandstest.Ledger) *ledger.State {
	t.Helper()
	return commandstest.Must(l.Writer.Fork(context.Background()))
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
		defer l.Remove(t)
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

// TestClaims plays testdata/claims.txt.
func TestClaims(t *testing.T) {
	var l *commandstest.Ledger
	ledgertest.Answers(t, "testdata/claims.txt", func(line, _ string) string {
		if line == "a new ledger" {
			l = start(t)
			return ""
		}
		name, body, _ := strings.Cut(line, " ")
		body = named.ReplaceAllStringFunc(body, func(name string) string { return idOf(name).String() })
		o := l.Submit(t, commandstest.Must(commands.Decode(name, []byte(body))))
		if o.Rejection != nil {
			return string(o.Rejection.Code)
		}
		var places []string
		for _, event := range o.Events {
			if one, is := event.(ledger.AllocationsClaimed); is {
				places = append(places, nameOf(one.Allocations[0].Provider))
			}
		}
		return strings.Join(places, " ")
	})
}

var named = regexp.MustCompile(`\$\w+`)

// idOf is an id that ends with its name.
func idOf(name string) ledger.UUID {
	id := ledger.UUID{6: 0x40, 8: 0x80}
	copy(id[len(id)-maxName:], name)
	return id
}

// maxName is how long a name may be, with its $.
const maxName = 7

func nameOf(id ledger.UUID) string { return string(bytes.TrimRight(id[len(id)-maxName:], "\x00")) }

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
	if o := l.Submit(t, devices(8, demand.OrderPack)); codeOf(o.Rejection) != demand.CodeNoCandidates {
		t.Errorf("it must be rejected: %+v", o)
	}
}

// TestRaceForReservation: claims for one consumer and for two draw on one reservation at once.
// Every slot is given away once, and the reservation ends with its last slot.
func TestRaceForReservation(t *testing.T) {
	const hosts, slots = 5, 4
	l := start(t)
	reservation := commandstest.NewID()
	all := commands.ConsumerAllocations{Consumer: reservation, Project: "p", User: "u"}
	for _, host := range l.Providers(t, hosts, units(slots+2)) {
		all.Resources = append(all.Resources, commands.ProviderAllocation{Provider: host, Class: "VCPU", Amount: slots})
	}
	l.Accept(t, &commands.Reserve{Seconds: 3600, Allocations: []commands.ConsumerAllocations{all}})
	var mu sync.Mutex
	won := map[ledger.UUID]int{}
	var claims sync.WaitGroup
	for i := range 2 * hosts * slots {
		claims.Go(func() {
			c := oneCore()
			c.For[0].FromReservation, c.For[0].Count = &reservation, 1+i%2
			o := l.Submit(t, c)
			switch codeOf(o.Rejection) {
			case "":
				mu.Lock()
				defer mu.Unlock()
				for _, place := range placesOf(t, o) {
					won[place]++
				}
			case demand.CodeNoCandidates, demand.CodeNoReservation:
			default:
				t.Errorf("it was rejected with %s", o.Rejection)
			}
		})
	}
	claims.Wait()
	for id, n := range won {
		if n != slots {
			t.Errorf("of host %s %d slots of %d were given away", id, n, slots)
		}
	}
	if _, exists, err := l.Views.View().Consumer(reservation); len(won) != hosts || exists || err != nil {
		t.Errorf("%d hosts of %d were drawn on, and the reservation is still there: %v, %v", len(won), hosts, exists, err)
	}
}
