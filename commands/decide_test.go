package commands_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// decision is a row of the table of all decisions: a command, the situation in
// which it is decided, and the outcome.
type decision struct {
	about   string // what the row shows; different in all rows of one command
	before  steps  // carried out in the world first
	command commands.Command
	want    string // the outcome as a text
}

// steps are commands, one after the other.
type steps = []commands.Command

// outcome is the events of an accepted command, or its rejection.
type outcome struct {
	events []ledger.Event // none: the command changes nothing
	code   demand.Code
	facts  demand.Facts
}

const nothing = "nothing"

// String returns the events or the rejection, like "ProviderRenamed{Provider:host Name:new}".
func (o outcome) String() string {
	if o.code != "" {
		return string(o.code) + textOf(reflect.ValueOf(o.facts))
	}
	if len(o.events) == 0 {
		return nothing
	}
	var list []string
	for _, event := range o.events {
		list = append(list, ledger.KindOf(event)+textOf(reflect.ValueOf(event)))
	}
	return strings.Join(list, ", ")
}

// textOf writes a value like %+v, but leaves out what is absent or empty, and calls the
// entities of the world by their names.
func textOf(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return textOf(v.Elem())
	case reflect.Slice:
		list := make([]string, v.Len())
		for i := range list {
			list[i] = textOf(v.Index(i))
		}
		return fmt.Sprint(list)
	case reflect.Struct:
		var list []string
		for field, value := range v.Fields() {
			if !value.IsZero() && (value.Kind() != reflect.Slice || value.Len() > 0) {
				list = append(list, field.Name+":"+textOf(value))
			}
		}
		return "{" + strings.Join(list, " ") + "}"
	}
	return byName().Replace(fmt.Sprint(v))
}

// happens is what some events say; an event may be given as its text.
func happens(events ...any) string {
	list := make([]string, len(events))
	for i, event := range events {
		if one, is := event.(ledger.Event); is {
			event = outcome{events: []ledger.Event{one}}
		}
		list[i] = fmt.Sprint(event)
	}
	return strings.Join(list, ", ")
}

func rejected(code demand.Code, facts demand.Facts) string {
	return outcome{code: code, facts: facts}.String()
}

func invalid(field string) string { return "invalid{Field:" + field + "}" }

// decisions are all rows. Each is decided in a world of its own.
func decisions(t testing.TB) []decision {
	w := newWorld(t)
	return slices.Concat(
		nameDecisions(t, w), providerDecisions(), inventoryDecisions(), traitDecisions(),
		counterDecisions(), allocationDecisions(w),
		reservationDecisions(w), reshapeDecisions(w),
		newNodes(), changedNodes(), patchBounds(), deletedNodes(), nodeStateDecisions(),
		requests(), choices(), backfills(), changedAllocations(), // of whole nodes
		turnedOn(), turnedOnAgain(), nodesAsProviders(), consumersOfNodes(w), placementOfNodes(),
		chassisDecisions(), batchDecisions(w), lossDecisions(w),
		claimDecisions(w), limitDecisions(w), preferenceDecisions(w), topologyDecisions(w), aboutNothing(),
	)
}

// TestDecisions decides every row, and checks what holds for every command:
// deciding changes nothing and gives the same again; the events can be folded and
// undone; and the command has the same outcome after a trip through JSON, and as
// the only one of a batch.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for i, row := range decisions(t) {
		if i%ledgertest.Cases(1, 5) > 0 {
			continue
		}
		t.Run(commands.NameOf(row.command)+"/"+row.about, func(t *testing.T) {
			w := newWorld(t, row.before...)
			state := digest(t, w)
			got := w.decide(row.command)
			if got.String() != row.want {
				t.Errorf("decided:\n%s\nwant\n%s", got, row.want)
			}
			compareOutcomes(t, "decided again", got, w.decide(row.command))
			if after := digest(t, w); after != state {
				t.Errorf("deciding changed the State from %s to %s", state, after)
			}
			checkBatchOfOne(t, w, row.command, got)
			checkConsumers(t, row.command, got.events)
			checkJSON(t, w, row.command, got)
			checkFolds(t, w, got.events)
		})
	}
}

func compareOutcomes(t *testing.T, what string, want, got outcome) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // cmp takes a hundred times as long
	}
	diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{}), cmpopts.EquateEmpty())
	if diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

// checkConsumers requires a command that only changes what consumers hold to name
// these consumers, because the writer makes other commands that name them wait.
func checkConsumers(t *testing.T, c commands.Command, events []ledger.Event) {
	t.Helper()
	if !commands.OnlyHoldings(commands.NameOf(c)) {
		return
	}
	for _, id := range ledger.ConsumersChanged(events) {
		if !slices.Contains(commands.Consumers(c), id) {
			t.Errorf("it changes consumer %s, and names %v", id, commands.Consumers(c))
		}
	}
}

// checkBatchOfOne decides the command as the only one of a batch.
func checkBatchOfOne(t *testing.T, w *world, c commands.Command, want outcome) {
	t.Helper()
	if _, isBatch := c.(*commands.Batch); isBatch {
		return
	}
	if want.code != "" {
		first := 0
		want.facts.Command = &first
	}
	batch := &commands.Batch{Commands: []commands.Command{c}}
	compareOutcomes(t, "as a batch", want, w.decide(batch))
	if !slices.Equal(commands.Consumers(batch), commands.Consumers(c)) {
		t.Errorf("as a batch it names the consumers %v, not %v", commands.Consumers(batch), commands.Consumers(c))
	}
}

// checkJSON decides the command after it was encoded and decoded, like clients'
// commands.
func checkJSON(t *testing.T, w *world, c commands.Command, want outcome) {
	t.Helper()
	_, registered := commands.Registry[commands.NameOf(c)]
	if _, isBatch := c.(*commands.Batch); !registered && !isBatch {
		return
	}
	text, read := []byte(nil), commands.Command(nil)
	text, err := json.Marshal(c)
	if err == nil {
		read, err = commands.Decode(commands.NameOf(c), text)
	}
	if want.code == demand.CodeInvalid && (err != nil || !reflect.DeepEqual(c, read)) {
		return // JSON cannot express it: an infinite number, bytes that are not text, a batch of batches
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	compareOutcomes(t, "read from JSON", want, w.decide(read))
	before := commandstest.Must(commands.FingerprintOf(c))
	if after, err := commands.FingerprintOf(read); err != nil || before != after {
		t.Errorf("the fingerprint changes from %x to %x when the command is written and read, %v", before, after, err)
	}
}

// checkFolds folds the events and undoes them.
func checkFolds(t *testing.T, w *world, events []ledger.Event) {
	t.Helper()
	before := digest(t, w)
	s := w.State()
	undo := s.Begin()
	err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime(), Events: events})
	if err != nil {
		t.Errorf("the events do not follow: %v", err)
	}
	s.Undo(undo, s.Changes())
	if after := digest(t, w); after != before {
		t.Errorf("undone, the State is %s, not %s", after, before)
	}
}

// idle are the commands that may change nothing. All others always change
// something, or are rejected.
var idle = []string{
	"AddNodeTrait", "AddStandardNames", "AllocateForConsumers", "Batch", "ChooseNode", "ExpireReservation", "PlaceProject",
	"RenameProvider", "RenameResourceClass", "ReparentProvider", "ReplaceInventories", "ReplaceNodeTraits",
	"ReplaceProviderAggregates", "ReplaceProviderTraits", "SetConsumptionRoot", "SetLimit", "SetNodeMaintenance",
	"SetNodePowerState", "SetNodeProviders", "SetPreference", "SetTopology", "UpdateChassis", "UpdateInventory",
	"UpdateNode", "UpdateNodeAllocation", "UpdateProvider",
}

// elsewhere are the codes that no command's Decide returns.
var elsewhere = map[demand.Code]string{
	demand.CodeCommandIDReused: "the writer, which knows the ids of the past",
	demand.CodeForbidden:       "ForProject, see TestProjects",
	demand.CodeNotYet:          "the writer, which knows the level of each kind of event",
	demand.CodeNodeBusy:        "older versions",
	demand.CodeClaimBudget:     "a search that is not brought to its end, see package placing",
	demand.CodeClaimOutdated:   "a claim that was searched before, see package placing",
}

// TestDecisionsAreComplete requires a row for each outcome of every command
// (accepted, rejected, nothing to change), and for every code of a rejection.
func TestDecisionsAreComplete(t *testing.T) {
	t.Parallel()
	rows := decisions(t)
	has := rowsByOutcome(t, rows)
	for _, name := range commandTypes(t) {
		for what, want := range map[string]bool{
			"accepted": true, "rejected": true, "idle": slices.Contains(idle, name),
		} {
			if got := has[name+" "+what]; got != want {
				t.Errorf("the table has a row of %s that is %s: %v, want %v", name, what, got, want)
			}
		}
	}
	for _, code := range declaredCodes(t) {
		if _, other := elsewhere[code]; has["code "+string(code)] == other {
			t.Errorf("the table has a row that is rejected with %s: %v", code, !other)
		}
	}
}

// TestRandomDecisions: every rejection of a random command is in the table.
func TestRandomDecisions(t *testing.T) {
	t.Parallel()
	has := rowsByOutcome(t, decisions(t))
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		if rapid.Bool().Draw(rt, "other world") {
			w = otherWorld(t, commandstest.SomeThings()...)
		}
		for range 20 {
			c := commandstest.RandomCommand(rt)
			if _, isBatch := c.(*commands.Batch); isBatch {
				continue
			}
			got := w.decide(c)
			if got.code != "" && !has[commands.NameOf(c)+" "+string(got.code)] {
				rt.Fatalf("the table has no row of %s that is rejected with %s", commands.NameOf(c), got.code)
			}
			w.carry(c)
		}
	})
}

// rowsByOutcome lists what the rows show, and finds repetitions.
func rowsByOutcome(t *testing.T, rows []decision) map[string]bool {
	t.Helper()
	has := make(map[string]bool)
	for _, row := range rows {
		name := commands.NameOf(row.command)
		if has[name+"/"+row.about] {
			t.Errorf("there are two rows %s/%s", name, row.about)
		}
		code, _, _ := strings.Cut(row.want, "{")
		what := "accepted"
		switch {
		case row.want == nothing:
			what = "idle"
		case unicode.IsLower(rune(code[0])):
			what = "rejected"
		}
		has[name+"/"+row.about], has[name+" "+what], has[name+" "+code], has["code "+code] = true, true, true, true
	}
	return has
}

// declaredCodes reads the codes of rejections from the source.
func declaredCodes(t *testing.T) (codes []demand.Code) {
	t.Helper()
	source := commandstest.Must(os.ReadFile("demand/rejection.go"))
	for _, found := range regexp.MustCompile(`\bCode = "(.*?)"`).FindAllSubmatch(source, -1) {
		codes = append(codes, demand.Code(found[1]))
	}
	if len(codes) < 40 {
		t.Fatalf("only %d codes were found: %v", len(codes), codes)
	}
	return codes
}

// TestProjects: the commands that a client which is bound to project p may
// submit.
func TestProjects(t *testing.T) {
	t.Parallel()
	own, theirs, taken := allocate(fresh, host, vcpu, 2), allocate(fresh, host, vcpu, 2), allocate(others, host, vcpu, 2)
	theirs.Project, taken.AnyGeneration = "q", true
	request := func(owner string) commands.Command { return request(wish{Owner: owner}) }
	renamed := &commands.UpdateNodeAllocation{Patch: []commands.PatchOperation{set("/name", `"b"`)}}
	update := func(id ledger.UUID) commands.Command { return naming(renamed, "Allocation", id) }
	claims := func(consumer, near ledger.UUID, project string) commands.Command {
		c := claim(map[string]int64{vcpu: 2}, consumer)
		c.For[0].Project = project
		if !near.IsNil() {
			c.Prefer = &demand.ClaimPreference{
				Near: []demand.NearConsumers{{By: "tree", Consumers: []ledger.UUID{near}, Rule: "require"}},
			}
		}
		return c
	}
	release := func(id ledger.UUID) commands.Command { return &commands.ReleaseConsumer{Consumer: id} }
	confirm := func(id ledger.UUID) commands.Command { return &commands.ConfirmReservation{Consumer: id} }
	cancel := func(id ledger.UUID) commands.Command { return &commands.CancelReservation{Consumer: id} }
	rules := map[string]struct{ mine, notMine steps }{
		"Claim": {
			steps{claims(fresh, ledger.NilUUID, "p"), claims(fresh, holder, "p")},
			steps{claims(others, ledger.NilUUID, "p"), claims(fresh, ledger.NilUUID, "q"), claims(fresh, others, "p")},
		},
		"AllocateForConsumers":  {steps{allocations(own)}, steps{allocations(theirs), allocations(own, taken)}},
		"Reserve":               {steps{reserve(9, own)}, steps{reserve(9, theirs), reserve(9, taken)}},
		"ReleaseConsumer":       {steps{release(holder), release(fresh)}, steps{release(others)}},
		"ConfirmReservation":    {steps{confirm(reserved)}, steps{confirm(others)}},
		"CancelReservation":     {steps{cancel(reserved)}, steps{cancel(others)}},
		"RequestNodeAllocation": {steps{request("p")}, steps{request("q"), request("")}},
		"UpdateNodeAllocation":  {steps{update(waiting)}, steps{update(deployed)}},
		"ReleaseNodeAllocation": {steps{releaseNode(waiting)}, steps{releaseNode(deployed)}},
	}
	w := newWorld(t)
	check := func(c commands.Command, allowed bool) {
		t.Helper()
		for name, c := range map[string]commands.Command{"": c, "a batch of ": batch(c)} {
			name += commands.NameOf(c)
			_, rejection := commands.DecideChecked(commands.Submission{Command: searching(c), Project: "p"}, w.State())
			forbidden := rejection != nil && rejection.Code == demand.CodeForbidden
			hidden := rejection != nil && slices.Contains([]demand.Code{
				demand.CodeConsumerNotFound, demand.CodeNodeAllocationNotFound, demand.CodeNodeUnknown,
			}, rejection.Code)
			if allowed && forbidden || !allowed && !forbidden && !hidden ||
				forbidden && !strings.Contains(rejection.Message, "bound to project p") {
				t.Errorf("%s: %v", name, rejection)
			}
		}
	}
	for _, rule := range rules {
		for _, c := range rule.mine {
			check(c, true)
		}
		for _, c := range rule.notMine {
			check(c, false)
		}
	}
	for _, table := range []map[string]func() commands.Command{commands.Registry, commands.Internal} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if _, known := rules[name]; !known {
				check(table[name](), false)
			}
		}
	}
}

// world is a ledger with some of everything, in which commands are decided.
type world struct {
	*commands.Scratch
	t testing.TB
}

// The entities of the world; see newWorld.
var (
	ledgerID = named("ledgerID", 9, 1)

	rack  = named("rack", 1, 1)  // a provider without inventories
	host  = named("host", 1, 2)  // below it, with 2..4 of 8 VCPU, and 4 CUSTOM_USED
	spare = named("spare", 1, 3) // a provider with nothing
	gone  = named("gone", 1, 99)

	holder   = named("holder", 2, 1)   // of project p: 2 VCPU of the host for good
	reserved = named("reserved", 2, 2) // of project p: 2 VCPU of the host for a while
	others   = named("others", 2, 3)   // of project q: 1 CUSTOM_USED of the host for a while
	fresh    = named("fresh", 2, 99)

	aggregate, aggregate2 = named("aggregate", 3, 1), named("aggregate2", 3, 2)

	enrolled = named("enrolled", 5, 1) // a node in unknown condition, in the full chassis
	idleNode = named("idleNode", 5, 2) // a node that can be allocated, with trait CUSTOM_USED
	busyNode = named("busyNode", 5, 3) // a node that is active, with an allocation without an owner
	lostNode = named("lostNode", 5, 99)

	deployed = named("deployed", 6, 1) // the allocation of the busy node
	waiting  = named("waiting", 6, 2)  // of project p: an allocation that waits for a node
	failed   = named("failed", 6, 3)   // an allocation that got no node
	noNode   = named("noNode", 6, 99)

	instance = named("instance", 7, 1) // an instance that runs nowhere yet

	fullChassis  = named("fullChassis", 8, 1)
	emptyChassis = named("emptyChassis", 8, 2)
	noChassis    = named("noChassis", 8, 99)
)

// idNames are the names of the world's entities, each behind its id.
var idNames []string

func named(name string, kind, n byte) ledger.UUID {
	id := ledgertest.ID(kind, n)
	idNames = append(idNames, id.String(), name)
	return id
}

var byName = sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer(idNames...) })

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
		made.world = makeWorld(t)
	}
	w := &world{Scratch: commands.NewScratch(made.world.Fork()), t: t}
	made.Unlock()
	w.accept(more...)
	return w
}

// otherWorld has the standard names, and what commands make.
func otherWorld(t testing.TB, list ...commands.Command) *world {
	w := &world{Scratch: commands.NewScratch(ledger.NewState()), t: t}
	w.accept(standardNames(t))
	w.accept(list...)
	return w
}

// made is the world before a test changes it. Each test takes a copy.
var made struct {
	sync.Mutex
	world *ledger.State
}

func makeWorld(t testing.TB) *ledger.State {
	w := otherWorld(t,
		&commands.CreateTrait{Name: used}, &commands.CreateTrait{Name: free},
		&commands.CreateResourceClass{Name: used}, &commands.CreateResourceClass{Name: free},

		&commands.CreateProvider{Provider: rack, Name: "rack"},
		&commands.CreateProvider{Provider: host, Name: "host", Parent: rack},
		&commands.CreateProvider{Provider: spare, Name: "spare"},
		&commands.ReplaceInventories{Provider: host, Inventories: []commands.Inventory{
			{Class: vcpu, Total: 8, MinUnit: ptr[int64](2), MaxUnit: ptr[int64](4), StepSize: ptr[int64](2)},
			{Class: used, Total: 4},
		}},
		&commands.ReplaceProviderTraits{Provider: host, Traits: []string{used}},
		&commands.ReplaceProviderAggregates{Provider: host, Aggregates: []ledger.UUID{aggregate}},

		allocations(allocate(holder, host, vcpu, 2)),
		reserve(60, allocate(reserved, host, vcpu, 2)),
		reserve(60, commands.ConsumerAllocations{
			Consumer: others, Project: "q", User: "u",
			Resources: []commands.ProviderAllocation{{Provider: host, Class: used, Amount: 1}},
		}),

		&commands.CreateChassis{Chassis: fullChassis}, &commands.CreateChassis{Chassis: emptyChassis},
		&commands.CreateNode{Node: enrolled, NodeFields: commands.NodeFields{
			Name: ptr("enrolled"), Driver: ptr("fake"), ResourceClass: ptr("metal"),
			NodeDetails: commands.NodeDetails{ChassisUUID: &fullChassis},
		}},
		node(busyNode), &commands.SetNodeProvisionState{Node: busyNode, Target: "provide"},
		requestAs(deployed, wish{Name: "deployed"}), choose(deployed, 1), verb(busyNode, "active"),
		node(idleNode), verb(idleNode, "provide"), &commands.AddNodeTrait{Node: idleNode, Trait: used},
		requestAs(failed, wish{ResourceClass: "no such", Name: "failed"}), choose(failed, 1),
		requestAs(waiting, wish{Owner: "p", Name: "waiting"}),
	)
	return w.State()
}

func standardNames(t testing.TB) *commands.AddStandardNames {
	t.Helper()
	c := commandstest.Must(commands.NewAddStandardNames(ledgerID))
	return c
}

// node makes a node that is manageable, and off.
func node(id ledger.UUID) commands.Command {
	return &commands.Batch{Commands: []commands.Command{
		&commands.CreateNode{Node: id, NodeFields: commands.NodeFields{
			Driver: ptr("fake"), ResourceClass: ptr("metal"), Owner: ptr("p"),
		}},
		&commands.SetNodeProvisionState{Node: id, Target: "manage"},
	}}
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
	events, rejection := commands.Decide(commands.Submission{Command: searching(c)}, w.State())
	if rejection == nil {
		return outcome{events: events}
	}
	if events != nil {
		w.t.Errorf("%s is rejected, with events: %v", commands.NameOf(c), events)
	}
	if rejection.Message == "" || strings.Contains(rejection.Message, "%!") {
		w.t.Errorf("%s is rejected with the text %q", commands.NameOf(c), rejection.Message)
	}
	return outcome{code: rejection.Code, facts: rejection.Facts}
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
