package commands_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// decision is a row of the table of all decisions: a command, the situation in which it is decided, and the outcome.
type decision struct {
	about   string // what the row shows; different in all rows of one command on a page
	before  steps  // carried out in the world first
	project string // to which the client is bound, if it is bound
	command commands.Command
	want    string // the outcome as a text
	page    *page  // on which the row stands; nil: in beyondJSON
	part    int    // of the page
}

func (row decision) name() string {
	name := commands.NameOf(row.command) + "/" + row.about
	if row.page == nil {
		return name
	}
	return strings.TrimSuffix(filepath.Base(row.page.path), ".txt") + "/" + name
}

// steps are commands, one after the other.
type steps = []commands.Command

// outcome is the events of an accepted command, or its rejection.
type outcome struct {
	events  []ledger.Event // none: the command changes nothing
	code    demand.Code
	facts   demand.Facts
	message string
}

const nothing = "nothing"

// String returns the events, one in a line, like "ProviderRenamed{Provider:$host Name:new}", or the rejection.
func (o outcome) String() string {
	if o.code != "" {
		return string(o.code) + textOf(reflect.ValueOf(o.facts)) + " " + textOf(reflect.ValueOf(o.message))
	}
	if len(o.events) == 0 {
		return nothing
	}
	var list []string
	for _, event := range o.events {
		list = append(list, ledger.KindOf(event)+textOf(reflect.ValueOf(event)))
	}
	return strings.Join(list, "\n")
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

// TestDecisions decides every row, and checks what holds for every command: deciding changes nothing and gives the
// same again; the events can be folded and undone; and the command has the same outcome after a trip through JSON,
// and as the only one of a batch.
func TestDecisions(t *testing.T) {
	t.Parallel()
	rows := decisions(t)
	for i, row := range rows {
		if i%ledgertest.Cases(1, 5) > 0 {
			continue
		}
		t.Run(row.name(), func(t *testing.T) {
			w := newWorld(t, row.before...)
			w.project = row.project
			state := digest(t, w)
			got := w.decide(row.command)
			if ledgertest.Updating() {
				row.answer(got)
			} else if got.String() != row.want {
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
	if ledgertest.Updating() {
		writePages(t, rows)
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
	got := w.decide(batch)
	want.message, got.message = "", "" // which says the place in the batch
	compareOutcomes(t, "as a batch", want, got)
	if !slices.Equal(commands.Consumers(batch), commands.Consumers(c)) {
		t.Errorf("as a batch it names the consumers %v, not %v", commands.Consumers(batch), commands.Consumers(c))
	}
}

// checkJSON decides the command after it was encoded and decoded, like clients' commands.
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

// idle are the commands that may change nothing. All others always change something, or are rejected.
var idle = []string{
	"AddNodeTrait", "AddStandardNames", "AllocateForConsumers", "Batch", "ChooseNode", "ExpireReservation", "PlaceProject",
	"RenameProvider", "RenameResourceClass", "ReparentProvider", "ReplaceInventories", "ReplaceNodeTraits",
	"ReplaceProviderAggregates", "ReplaceProviderTraits", "SetConsumptionRoot", "SetLimit", "SetNodeMaintenance",
	"SetNodePowerState", "SetNodeProviders", "SetPreference", "SetTopology", "UpdateChassis", "UpdateInventory",
	"UpdateNode", "UpdateNodeAllocation", "UpdateProvider",
}

// elsewhere are the codes that no row has.
var elsewhere = map[demand.Code]string{
	demand.CodeCommandIDReused: "the writer, which knows the ids of the past",
	demand.CodeNotYet:          "the writer, which knows the level of each kind of event",
	demand.CodeNodeBusy:        "older versions",
	demand.CodeClaimOutdated:   "a claim that was searched before, see TestOutdated",
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
		if has[row.name()] {
			t.Errorf("there are two rows %s", row.name())
		}
		code, _, _ := strings.Cut(row.want, "{")
		what := "accepted"
		switch {
		case row.want == nothing:
			what = "idle"
		case code != "" && unicode.IsLower(rune(code[0])): // a new row has none before -update
			what = "rejected"
		}
		has[row.name()], has[name+" "+what], has[name+" "+code], has["code "+code] = true, true, true, true
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

// TestProjects: a client that is bound to a project may submit the commands that have a row for such a client, and
// no other.
func TestProjects(t *testing.T) {
	t.Parallel()
	may := map[string]bool{}
	for _, row := range decisions(t) {
		may[commands.NameOf(row.command)] = may[commands.NameOf(row.command)] || row.project != ""
	}
	w := newWorld(t)
	w.project = "p"
	for _, table := range []map[string]func() commands.Command{commands.Registry, commands.Internal} {
		for name, empty := range table {
			for _, c := range []commands.Command{empty(), batch(empty())} {
				_, rejection := commands.DecideChecked(commands.Submission{Command: c, Project: "p"}, w.State())
				if may[name] || rejection != nil && rejection.Code == demand.CodeForbidden &&
					strings.Contains(rejection.Message, name+" is not for a client that is bound to project p") {
					continue
				}
				t.Errorf("%s: %v", commands.NameOf(c), rejection)
			}
		}
	}
}

// beyondJSON are rows that JSON cannot express: text that is not UTF-8, numbers that are none, and batches that are
// refused when they are read.
func beyondJSON() []decision {
	wrong := func(about, field, why string, c commands.Command) decision {
		return decision{about: about, command: c, want: fmt.Sprintf("invalid{Field:%s} %[1]s: %s", field, why)}
	}
	const noRatio, noUser = "+Inf is not within +-3.40282e+38", "takes 1 to 255 characters of valid UTF-8, not 1"
	noText, infinite := allocate(fresh, host, vcpu, 2), units(vcpu, 8)
	noText.User, infinite.Ratio = "\xff", ptr(math.Inf(1))
	inventories := []commands.Inventory{infinite}
	move := []commands.ProviderInventories{{Provider: spare, Generation: new(int64), Inventories: inventories}}
	prefers := func(p demand.ClaimPreference) *commands.Claim {
		c := claim(map[string]int64{vcpu: 2}, fresh)
		c.Prefer = &p
		return c
	}
	noNumber := demand.ClaimPreference{Traits: map[string]demand.Weight{used: demand.Weight(math.NaN())}}
	tooNear := demand.ClaimPreference{Near: []demand.NearConsumers{
		{By: "tree", Weight: demand.Weight(math.Inf(1)), Consumers: []ledger.UUID{holder}},
	}}
	least := &demand.ClaimPreference{Weights: map[string]demand.Weight{vcpu: demand.Weight(math.Inf(-1))}}
	same := &commands.RenameProvider{Provider: host, Name: "host"}
	return []decision{
		wrong("no text", "name", "takes at most 200 characters of valid UTF-8, not 1",
			&commands.CreateProvider{Provider: fresh, Name: "\xff"}),
		wrong("infinite", "allocation_ratio", noRatio, &commands.CreateInventory{Provider: spare, Inventory: infinite}),
		wrong("infinite", "allocation_ratio", noRatio, &commands.UpdateInventory{Provider: host, Inventory: infinite}),
		wrong("infinite", "allocation_ratio", noRatio,
			&commands.ReplaceInventories{Provider: spare, Inventories: inventories}),
		wrong("infinite", "allocation_ratio", noRatio, &commands.Reshape{Inventories: move}),
		wrong("no text", "user", noUser, allocations(noText)),
		wrong("no text", "user", noUser, reserve(60, noText)),
		wrong("no text", "user", noUser, &commands.Reshape{
			Inventories: []commands.ProviderInventories{{Provider: spare, Generation: new(int64)}},
			Allocations: []commands.ConsumerAllocations{noText},
		}),
		wrong("no text", "reason", "takes at most 65536 bytes of valid UTF-8",
			&commands.SetNodeMaintenance{Node: id("idleNode"), Maintenance: true, Reason: "\xff"}),
		wrong("no number", "prefer", "the weight NaN of CUSTOM_USED is not a number within +-1e+06", prefers(noNumber)),
		wrong("infinitely near", "prefer", "the weight +Inf of near is not a number within +-1e+06", prefers(tooNear)),
		wrong("infinitely little", "prefer", "the weight -Inf of VCPU is not a number within +-1e+06",
			&commands.SetPreference{Name: "a", Prefer: least}),
		wrong("a batch", "commands", "a batch holds no batches", batch(batch(same))),
		wrong("too many", "commands", "a batch has 1 to 10000 commands, not 10001",
			batch(slices.Repeat(steps{same}, commands.MaxBatch+1)...)),
	}
}
