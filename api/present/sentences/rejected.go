package sentences

import (
	"regexp"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Rejected says that a command was rejected, and why.
func (t Teller) Rejected(actor, command string, why *demand.Rejection) Words {
	words := Words{actorOf(actor), {Text: " could not " + Spaced(command) + ": "}}
	return append(words, t.words(t.named(why)...)...).merged()
}

// actorOf names who sent a command.
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
