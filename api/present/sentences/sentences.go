// Package sentences says in words what records did: who, to what, and what was before.
package sentences

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Word is a part of a sentence: plain text, or what something is called.
type Word struct {
	Text string `json:"text"`
	Of   string `json:"of,omitempty"`   // its kind: consumer, provider, actor...
	Name string `json:"name,omitempty"` // its uuid or id
}

// Words are a sentence.
type Words []Word

// String returns the sentence as text.
func (w Words) String() string {
	var text strings.Builder
	for _, one := range w {
		text.WriteString(one.Text)
	}
	return text.String()
}

// Past is what was before a record, and what things are called.
type Past interface {
	// Each of these is nil where there was none.
	Consumer(ledger.UUID) *wire.Allocations
	Provider(ledger.UUID) *wire.Provider
	Node(ledger.UUID) *wire.Node
	NodeAllocation(ledger.UUID) *wire.NodeAllocation
	Limit(project, class, consumers string) *int64
	AggregateLimit(aggregate ledger.UUID, class string) *int64
	// These are empty where there was none.
	Preference(name string) string
	Parent(project string) string
	Class(ledger.ClassID) string

	// Called returns the name of something; empty: it has none.
	Called(of, id string) string
}

// Teller makes sentences.
type Teller struct {
	Past
	WholeIDs bool // ids that have no name are not shortened
	// About is what a sentence is for, which is told first; zero: nothing.
	About Word
}

const (
	maxTold = 3 // events that a sentence tells of
	// maxMade is how many events are told to find those about something.
	maxMade = 1000
	maxList = 6   // items of a list that are told
	maxText = 100 // bytes of a document that are told
)

// OfActor is the kind of those that send commands.
const OfActor = "actor"

// Record says what a record did.
func (t Teller) Record(r *ledger.Record) Words {
	actor := actorOf(r.Actor)
	events := slices.DeleteFunc(lasting(r.Events), beside)
	if len(events) == 0 {
		events = r.Events
	}
	if len(events) == 0 {
		return Words{actor, {Text: " carried out " + Spaced(r.Command)}}
	}
	words := Words{actor, {Text: " "}}
	told := t.first(events, r.Time)
	for i, one := range told {
		if i > 0 {
			words = append(words, Word{Text: "; "})
		}
		words = append(words, one...)
	}
	if more := len(events) - len(told); more > 0 {
		words = append(words, Word{Text: "; and " + number(int64(more)) + " more"})
	}
	return words.merged()
}

// first tells the most important events: those about what is asked for, then
// those of consumers.
func (t Teller) first(events []ledger.Event, at int64) (told []Words) {
	rank := func(ledger.Event) int { return 0 }
	if slices.ContainsFunc(events, ofConsumer) {
		rank = func(e ledger.Event) int {
			if ofConsumer(e) {
				return 0
			}
			return 1
		}
	}
	var ranks [4][]Words
	for i, event := range events {
		made := i < maxMade && t.About.Of != ""
		n := rank(event) + 2
		if !made && len(ranks[n]) >= maxTold {
			continue
		}
		words := t.event(event, at)
		if made && slices.ContainsFunc(words, func(w Word) bool { return w.Of == t.About.Of && w.Name == t.About.Name }) {
			n -= 2
		}
		if len(ranks[n]) < maxTold {
			ranks[n] = append(ranks[n], words)
		}
		if len(ranks[0]) == maxTold || t.About.Of == "" && len(ranks[2]) == maxTold {
			break
		}
	}
	told = slices.Concat(ranks[:]...)
	return told[:min(maxTold, len(told))]
}

// lasting leaves out inventories that a later event of the record replaces again, as the last ones
// of a reshape replace those between which its allocations move.
func lasting(events []ledger.Event) (list []ledger.Event) {
	replaced := make(map[ledger.UUID]bool)
	for _, event := range slices.Backward(events) {
		if e, is := event.(ledger.InventoriesReplaced); is {
			if replaced[e.Provider] {
				continue
			}
			replaced[e.Provider] = true
		}
		list = append(list, event)
	}
	slices.Reverse(list)
	return list
}

// beside reports whether an event only goes with others.
func beside(e ledger.Event) bool {
	_, is := e.(ledger.ProviderGenerationsAdvanced)
	return is
}

func ofConsumer(e ledger.Event) bool { return ledger.TopicOf(e).Of == ledger.OfConsumer }

func (t Teller) event(e ledger.Event, at int64) Words {
	return t.words(events[reflect.TypeOf(e)](e, said{t, at})...)
}

// Spaced turns AllocateForConsumers into "allocate for consumers".
func Spaced(name string) string {
	var text strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			text.WriteByte(' ')
		}
		text.WriteRune(unicode.ToLower(r))
	}
	return text.String()
}

type thing struct{ of, id string }

// words makes words of texts, numbers, things and lists of things.
func (t Teller) words(parts ...any) (words Words) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			words = append(words, Word{Text: part})
		case int64:
			words = append(words, Word{Text: number(part)})
		case thing:
			words = append(words, Word{t.called(part), part.of, part.id})
		case []any:
			words = append(words, t.words(part...)...)
		}
	}
	return words.merged()
}

// merged joins texts that stand side by side.
func (w Words) merged() (merged Words) {
	for _, one := range w {
		if n := len(merged); n > 0 && one.Of == "" && merged[n-1].Of == "" {
			merged[n-1].Text += one.Text
			continue
		}
		merged = append(merged, one)
	}
	return merged
}

func (t Teller) called(one thing) string {
	name := t.Called(one.of, one.id)
	switch {
	case name != "":
		return name
	case t.WholeIDs:
		return one.id
	}
	return Short(one.id)
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)

// Short is a uuid as far as people compare it; other ids are whole.
func Short(id string) string {
	if uuid.MatchString(id) {
		return id[:8]
	}
	return id
}

// number is a number for people: from 10,000 on with commas.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	if n > -10_000 && n < 10_000 {
		return text
	}
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Rejected says that a command was rejected, and why.
func (t Teller) Rejected(actor, command string, why *demand.Rejection) Words {
	words := Words{actorOf(actor), {Text: " could not " + Spaced(command) + ": "}}
	return append(words, t.words(t.named(why)...)...).merged()
}

func actorOf(name string) Word {
	if name == "" {
		return Word{Text: "a client"}
	}
	return Word{name, OfActor, name}
}

var uuidWithin = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// named is a rejection's message with names in the place of uuids: what one is of, its facts tell, or that it has a
// name.
func (t Teller) named(why *demand.Rejection) (parts []any) {
	of := make(map[string]string)
	facts := &why.Facts
	for _, fact := range []struct {
		of string
		id *ledger.UUID
	}{
		{wire.OfConsumer, facts.Consumer}, {wire.OfConsumer, facts.Instance}, {wire.OfProvider, facts.Provider},
		{wire.OfNode, facts.Node}, {wire.OfNodeAllocation, facts.Allocation}, {wire.OfChassis, facts.Chassis},
	} {
		if fact.id != nil {
			of[fact.id.String()] = fact.of
		}
	}
	rest := why.Message
	for at := uuidWithin.FindStringIndex(rest); at != nil; at = uuidWithin.FindStringIndex(rest) {
		id := rest[at[0]:at[1]]
		for _, kind := range []string{wire.OfProvider, wire.OfNode, wire.OfNodeAllocation, ofAggregate} {
			if of[id] == "" && t.Called(kind, id) != "" {
				of[id] = kind
			}
		}
		parts = append(parts, rest[:at[0]])
		if rest = rest[at[1]:]; of[id] == "" {
			parts = append(parts, id)
		} else {
			parts = append(parts, thing{of[id], id})
		}
	}
	return append(parts, rest)
}
