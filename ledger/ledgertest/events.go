package ledgertest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// types are those of all events, which events.txt names.
var types = []ledger.Event{
	ledger.LedgerCreated{}, ledger.StandardNamesAdded{}, ledger.TraitCreated{}, ledger.TraitDeleted{},
	ledger.ClassCreated{}, ledger.ClassRenamed{}, ledger.ClassDeleted{},
	ledger.ProviderCreated{}, ledger.ProviderRenamed{}, ledger.ProviderReparented{}, ledger.ProviderDeleted{},
	ledger.ProviderGenerationsAdvanced{}, ledger.ProviderTraitsReplaced{}, ledger.ProviderAggregatesReplaced{},
	ledger.ProviderCountersReplaced{}, ledger.ProviderImported{},
	ledger.InventoriesReplaced{}, ledger.InventorySet{}, ledger.InventoryDeleted{},
	ledger.AllocationsReplaced{}, ledger.AllocationsReserved{}, ledger.AllocationsClaimed{},
	ledger.ConsumerRemoved{}, ledger.ConsumerImported{}, ledger.ContentsImported{},
	ledger.NodeProvidersSet{}, ledger.NodeCreated{}, ledger.NodeDescribed{}, ledger.NodeStateSet{},
	ledger.NodeTraitsReplaced{}, ledger.NodeInstanceSet{}, ledger.NodeDeleted{}, ledger.NodeImported{},
	ledger.AllocationRequested{}, ledger.NodeAllocated{}, ledger.AllocationFailed{}, ledger.NodeAllocationUpdated{},
	ledger.NodeAllocationReleased{}, ledger.NodeAllocationImported{},
	ledger.ChassisCreated{}, ledger.ChassisDescribed{}, ledger.ChassisDeleted{}, ledger.ChassisImported{},
	ledger.LimitSet{}, ledger.LimitRemoved{}, ledger.AggregateLimitSet{}, ledger.AggregateLimitRemoved{},
	ledger.ProjectPlaced{}, ledger.PreferenceSet{}, ledger.PreferenceRemoved{},
	ledger.TopologySet{}, ledger.TopologyRemoved{}, ledger.TermBegan{}, ledger.ConsumptionRootSet{},
}

// ID returns a uuid that is the same every time.
func ID(kind, n byte) ledger.UUID {
	return ledger.UUID{0: kind, 6: 0x40, 8: 0x80, 15: n}
}

// kinds are those of ids that have names.
var kinds = map[string]byte{
	"provider": 1, "consumer": 2, "aggregate": 3, "node": 5, "allocation": 6, "instance": 7, "chassis": 8, "server": 8,
	"ledger": 9,
}

var namedID = regexp.MustCompile(`"([a-z]+) (\d+)"`)

// Event reads "NAME JSON", where "provider 1" stands for ID(1, 1), as do the like of others.
func Event(line string) (ledger.Event, error) {
	name, text, _ := strings.Cut(line, " ")
	i := slices.IndexFunc(types, func(one ledger.Event) bool { return reflect.TypeOf(one).Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("ledgertest knows no event %q", name)
	}
	text = namedID.ReplaceAllStringFunc(text, func(found string) string {
		parts := namedID.FindStringSubmatch(found)
		kind, known := kinds[parts[1]]
		n, err := strconv.ParseUint(parts[2], 10, 8)
		if !known || err != nil {
			return found
		}
		return strconv.Quote(ID(kind, byte(n)).String())
	})
	event := reflect.New(reflect.TypeOf(types[i]))
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(event.Interface()); err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return event.Elem().Interface().(ledger.Event), nil
}

// Named replaces the ids in a text by their names.
func Named(text string) string {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		prefix := ID(kinds[name], 0).String()
		pattern := regexp.MustCompile("(" + name + " )?" + prefix[:len(prefix)-2] + "([0-9a-f]{2})")
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			n, _ := strconv.ParseUint(found[len(found)-2:], 16, 8) // two digits
			return fmt.Sprint(name, " ", n)
		})
	}
	return text
}

//go:embed events.txt
var eventsText string

// book is what events.txt holds.
type book struct {
	lists map[string][]ledger.Event
	logs  []loggedEvents
}

// loggedEvents are the events of a log, by commit.
type loggedEvents struct {
	name    string
	commits [][]ledger.Event
}

// readBook reads events.txt anew, so that a test that changes an event changes no other's.
func readBook() *book {
	b, list := &book{lists: make(map[string][]ledger.Event)}, ""
	for line := range strings.SplitSeq(eventsText, "\n") {
		word, name, _ := strings.Cut(line, " ")
		last := len(b.logs) - 1
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case word == "events":
			list = name
		case word == "log":
			b.logs = append(b.logs, loggedEvents{name: name})
		case word == "commit":
			b.logs[last].commits = append(b.logs[last].commits, slices.Clone(b.lists[name]))
		case last < 0:
			b.lists[list] = append(b.lists[list], Must(Event(line)))
		default:
			commits := b.logs[last].commits
			commits[len(commits)-1] = append(commits[len(commits)-1], Must(Event(line)))
		}
	}
	return b
}

// Events returns a list of events.txt.
func Events(list string) []ledger.Event { return readBook().lists[list] }

// Vocabulary returns the events of an ordinary day.
func Vocabulary() []ledger.Event { return Events("everyday") }

// Reservation returns an event of a reservation.
func Reservation() ledger.Event { return Events("reservation")[0] }

// Claim is an event of what a claim chose.
func Claim() ledger.Event { return Events("claim")[0] }

// ConsumptionRootSet is a root of what three projects have consumed within the first hour of Unix time.
func ConsumptionRootSet() ledger.Event { return Events("consumption")[0] }

// EveryEvent returns every kind of event at least once, in an order in which they
// can be folded.
func EveryEvent() []ledger.Event {
	b := readBook()
	return slices.Concat(
		b.lists["everyday"], b.lists["nodes"], b.lists["chassis"], b.lists["reservation"], b.lists["claim"],
		b.lists["others"], b.lists["import"], b.lists["imported-nodes"], b.lists["consumption"],
	)
}
