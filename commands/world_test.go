package commands_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// world is a ledger with some of everything, in which commands are decided.
type world struct {
	*commands.Scratch
	t       testing.TB
	project string // to which the client is bound that submits commands; empty: it is not bound
}

// entities are the names of the UUIDs in testdata, by what most of them are; see testdata/world.txt.
var entities = map[byte]string{
	0: "aggregate0",                                       // before all other ids
	1: "rack host spare gone card oneSlice threeSlices",   // providers
	2: "holder reserved others fresh second third fourth", // consumers
	3: "aggregate aggregate2",
	5: "enrolled idleNode busyNode lostNode", // nodes
	6: "deployed waiting failed noNode",      // node allocations
	7: "instance",
	8: "fullChassis emptyChassis noChassis",
}

// Those that tests name, too.
var (
	host, spare           = id("host"), id("spare")
	holder, fresh         = id("holder"), id("fresh")
	aggregate, aggregate2 = id("aggregate"), id("aggregate2")
)

func id(name string) ledger.UUID {
	for kind, names := range entities {
		if n := slices.Index(strings.Fields(names), name); n >= 0 {
			return ledgertest.ID(kind, byte(n+1))
		}
	}
	panic("nothing has the name " + name)
}

// byName writes the names of entities for their ids.
var byName = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for _, names := range entities {
		for name := range strings.FieldsSeq(names) {
			pairs = append(pairs, id(name).String(), "$"+name)
		}
	}
	return strings.NewReplacer(pairs...)
})

const (
	vcpu = "VCPU"
	used = "CUSTOM_USED" // a class and a trait that are in use
	free = "CUSTOM_FREE" // a class and a trait that nothing has
	none = "CUSTOM_NONE" // neither
)

// newWorld makes the world, and carries some commands out in it.
func newWorld(t testing.TB, more ...commands.Command) *world {
	t.Helper()
	made.Lock()
	if made.world == nil {
		made.world = otherWorld(t, readPage(t, "testdata/world.txt").commands(t)...).State()
	}
	w := &world{Scratch: commands.NewScratch(made.world.Fork()), t: t}
	made.Unlock()
	w.accept(more...)
	return w
}

// otherWorld has the standard names, and what commands make.
func otherWorld(t testing.TB, list ...commands.Command) *world {
	t.Helper()
	w := &world{Scratch: commands.NewScratch(ledger.NewState()), t: t}
	w.accept(commandstest.Must(commands.NewAddStandardNames(ledgertest.ID(9, 1))))
	w.accept(list...)
	return w
}

// made is the world before a test changes it. Each test takes a copy.
var made struct {
	sync.Mutex
	world *ledger.State
}

var nameInText = regexp.MustCompile(`\$(\w+)(\.generation)?`)

// read reads a command as clients send it: its name, and its JSON. $NAME is the UUID of an entity, and
// $NAME.generation is the generation of a consumer of the world (which world.txt itself cannot say).
func read(t testing.TB, text string) commands.Command {
	t.Helper()
	name, body, _ := strings.Cut(text, " ")
	body = nameInText.ReplaceAllStringFunc(body, func(found string) string {
		name, ofGeneration := strings.CutSuffix(found[1:], ".generation")
		if ofGeneration {
			return fmt.Sprint(newWorld(t).generation(id(name)))
		}
		return id(name).String()
	})
	for _, table := range []map[string]func() commands.Command{commands.Registry, commands.Internal, unregistered} {
		if empty, known := table[name]; known {
			c := empty()
			if err := document.Decode([]byte(body), c); err != nil {
				t.Fatalf("%.200s: %v", text, err)
			}
			return c
		}
	}
	t.Fatalf("%.200s: there is no such command", text)
	return nil
}

// accept carries out commands that must change something.
func (w *world) accept(list ...commands.Command) {
	w.t.Helper()
	for _, c := range list {
		if events, rejection := w.carry(c); rejection != nil || len(events) == 0 {
			w.t.Fatalf("%s %+v: %v, %d events", commands.NameOf(c), c, rejection, len(events))
		}
	}
}

// searching has a command's claims searched for as they are decided.
func searching(c commands.Command) commands.Command { return commands.Searching(c, claiming.InState) }

func (w *world) carry(c commands.Command) ([]ledger.Event, *demand.Rejection) {
	w.t.Helper()
	events, rejection, err := w.Carry(commands.Submission{Command: searching(c), Actor: "test"})
	if err != nil {
		w.t.Fatalf("%s %+v: %v", commands.NameOf(c), c, err)
	}
	return events, rejection
}

// decide decides a command, and checks the text of a rejection.
func (w *world) decide(c commands.Command) outcome {
	w.t.Helper()
	submission := commands.Submission{Command: searching(c), Project: w.project}
	events, rejection := commands.Decide(submission, w.State())
	if rejection == nil {
		return outcome{events: events}
	}
	if events != nil {
		w.t.Errorf("%s is rejected, with events: %v", commands.NameOf(c), events)
	}
	if rejection.Message == "" || strings.Contains(rejection.Message, "%!") {
		w.t.Errorf("%s is rejected with the text %q", commands.NameOf(c), rejection.Message)
	}
	return outcome{code: rejection.Code, facts: rejection.Facts, message: rejection.Message}
}

// generation returns a consumer's generation.
func (w *world) generation(consumer ledger.UUID) uint64 {
	w.t.Helper()
	c, exists := w.State().Consumer(consumer)
	if !exists {
		w.t.Fatalf("there is no consumer %s", consumer)
	}
	return c.Generation
}

func digest(t testing.TB, w *world) string {
	t.Helper()
	d := commandstest.Must(w.State().Digest())
	return fmt.Sprint(d)
}

func ptr[T any](value T) *T { return &value }

func batch(list ...commands.Command) *commands.Batch { return &commands.Batch{Commands: list} }

// units is an inventory of so many units.
func units(class string, total int64) commands.Inventory {
	return commands.Inventory{Class: class, Total: total}
}

// allocate returns the new allocations of a consumer of project p that holds
// nothing yet.
func allocate(consumer, provider ledger.UUID, class string, amount int64) commands.ConsumerAllocations {
	return commands.ConsumerAllocations{
		Consumer: consumer, Project: "p", User: "u",
		Resources: []commands.ProviderAllocation{{Provider: provider, Class: class, Amount: amount}},
	}
}

func allocations(list ...commands.ConsumerAllocations) *commands.AllocateForConsumers {
	return &commands.AllocateForConsumers{Allocations: list}
}

func reserve(seconds float64, list ...commands.ConsumerAllocations) *commands.Reserve {
	return &commands.Reserve{Seconds: seconds, Allocations: list}
}

// claim asks for amounts of classes for a consumer of project p.
func claim(resources map[string]int64, consumer ledger.UUID) *commands.Claim {
	return &commands.Claim{Claim: demand.Claim{
		For:      []demand.ClaimConsumer{{Consumer: consumer, Project: "p", User: "u"}},
		Requests: []demand.CandidateRequest{{Groups: []demand.RequestGroup{{Resources: resources}}}},
	}}
}
