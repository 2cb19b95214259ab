package demand

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Rules of a gang.
const (
	GangTogether = "together"
	GangApart    = "apart"
	GangSpread   = "spread"

	maxGangRules = 8
	// maxRuled is up to how many consumers there are rules among, but for a topology.
	maxRuled = 256
)

// GangRule is about where the consumers of one claim are to each other. Sharing
// providers count for nothing. Its members stand in the order of their names, as
// they are kept.
type GangRule struct {
	// Among are the aggregates that count, by aggregate; absent: all.
	Among []ledger.UUID `json:"among,omitempty"`
	// By says what a place is: "provider", "tree" or "aggregate". What an aggregate's
	// root is in, its tree is in.
	By string `json:"by,omitempty"`
	// Rule is "together", all of them have a place in common; "apart", no two of them
	// have; or "spread", over so many places at least.
	Rule string `json:"rule,omitempty"`
	// Slices has each tree hold whole multiples of so many, in a topology. Absent: any number.
	Slices int `json:"slices,omitempty"`
	// Spread is how many consumers can each be given a place that is none of the
	// others', with the rule of that name. In a topology it is a level: they stand in as many
	// domains of it as possible, and at least two.
	Spread SpreadOver `json:"spread,omitzero"`
	// Topology is the name of one, in place of By and Rule: a domain of it holds all of them.
	Topology string `json:"topology,omitempty"`
	// Within is the level of that domain, or "smallest": the narrowest of which some holds them.
	Within string `json:"within,omitempty"`
}

// SpreadOver is a number of places, or a level of a topology.
type SpreadOver struct {
	Places int
	Level  string
}

func (g *GangRule) check(consumers int) *Rejection {
	if g.Topology != "" {
		return g.checkInTopology()
	}
	if g.Slices != 0 || g.Within != "" || g.Spread.Level != "" {
		return Invalid("gang", "within, slices and a level to spread over are of a topology: name it")
	}
	if _, known := reaches[g.By]; !known {
		return Invalid("gang", "by %q: \"provider\", \"tree\" and \"aggregate\" are possible", g.By)
	}
	if len(g.Among) > 0 && g.By != "aggregate" || len(g.Among) > maxNames {
		return Invalid("gang", "among is of rules by aggregate, and names up to %d", maxNames)
	}
	switch {
	case g.Rule != GangTogether && g.Rule != GangApart && g.Rule != GangSpread:
		return Invalid("gang", "a rule %q: %q, %q and %q are possible", g.Rule, GangTogether, GangApart, GangSpread)
	case (g.Rule == GangSpread) != (g.Spread.Places != 0):
		return Invalid("gang", "spread is of the rule of that name, and says over how many")
	case g.Rule == GangSpread && (g.Spread.Places < 2 || g.Spread.Places > consumers):
		return Invalid("gang", "%d consumers cannot be spread over %d: 2 to %d are possible", consumers, g.Spread.Places, consumers)
	}
	return nil
}

func (g *GangRule) checkInTopology() *Rejection {
	switch {
	case g.By+g.Rule != "":
		return Invalid("gang", "by and rule are of rules without a topology: %q has within, slices and spread", g.Topology)
	case g.Within == "" || g.Spread.Places != 0 || len(g.Among) > 0:
		return Invalid("gang", "with topology %q: within names a level, or is %q; spread names a level; among is not possible",
			g.Topology, Smallest)
	}
	return CheckPreferenceName(g.Topology)
}

// CheckGang finds rules that contradict each other whatever the State.
func CheckGang(rules []GangRule, consumers int) *Rejection {
	if len(rules) == 0 {
		return nil
	}
	if consumers < 2 || len(rules) > maxGangRules {
		return Invalid("gang", "up to %d rules of at least 2 consumers: not %d of %d", maxGangRules, len(rules), consumers)
	}
	for i := range rules {
		if r := rules[i].check(consumers); r != nil {
			return r
		}
	}
	levels, rules := PartGang(rules)
	if len(levels) > 1 {
		return Invalid("gang", "a gang stands in one topology, not in %q and %q", levels[0].Topology, levels[1].Topology)
	}
	if len(rules) > 0 && consumers > maxRuled {
		return Invalid("gang", "such rules are among up to %d consumers, not %d: only a topology holds more", maxRuled, consumers)
	}
	return contradiction(rules)
}

// PartGang parts the rules of topologies from the others.
func PartGang(rules []GangRule) (levels, others []GangRule) {
	for _, g := range rules {
		if g.Topology != "" {
			levels = append(levels, g)
		} else {
			others = append(others, g)
		}
	}
	return levels, others
}

// contradiction finds two rules that nothing satisfies.
func contradiction(rules []GangRule) *Rejection {
	for i := range rules {
		together := &rules[i]
		if together.Rule != GangTogether || together.By == "aggregate" {
			continue
		}
		for j := range rules {
			// What has a provider in common has a tree in common.
			other := &rules[j]
			if other.Rule == GangApart && (other.By == together.By || other.By == "tree") {
				return Invalid("gang", "together by %s contradicts apart by %s", together.By, other.By)
			}
		}
	}
	return nil
}

// Reach is what the rule calls a place.
func (g *GangRule) Reach() wanted.Reach { return reaches[g.By] }

// PlacesBy are the places of a candidate by a rule, each once.
func (g *GangRule) PlacesBy(
	providers []*ledger.Provider, rootOf func(*ledger.Provider) *ledger.Provider,
) (places []ledger.UUID) {
	add := func(id ledger.UUID) {
		if !slices.Contains(places, id) && (len(g.Among) == 0 || slices.Contains(g.Among, id)) {
			places = append(places, id)
		}
	}
	for _, p := range providers {
		if p.HasTrait(wanted.SharingTrait) {
			continue
		}
		switch g.Reach() {
		case wanted.SameProvider:
			add(p.UUID)
		case wanted.SameTree:
			add(p.Root)
		case wanted.SameAggregate:
			for _, id := range p.Aggregates {
				add(id)
			}
			if root := rootOf(p); root != nil && root != p {
				for _, id := range root.Aggregates {
					add(id)
				}
			}
		}
	}
	return places
}

// MarshalJSON implements json.Marshaler.
func (s SpreadOver) MarshalJSON() ([]byte, error) {
	if s.Level != "" {
		return json.Marshal(s.Level)
	}
	return json.Marshal(s.Places)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *SpreadOver) UnmarshalJSON(text []byte) error {
	*s = SpreadOver{}
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &s.Level)
	}
	if err := json.Unmarshal(text, &s.Places); err != nil || string(text) == "null" {
		return fmt.Errorf("spread is %.32s: a number of places, or a level of a topology", text)
	}
	return nil
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (s SpreadOver) EncodeMsgpack(e *msgpack.Encoder) error {
	if s.Level != "" {
		return e.EncodeString(s.Level)
	}
	return e.EncodeInt(int64(s.Places))
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (s *SpreadOver) DecodeMsgpack(d *msgpack.Decoder) error {
	*s = SpreadOver{}
	value, err := d.DecodeInterfaceLoose()
	switch value := value.(type) {
	case string:
		s.Level = value
		return nil
	case int64:
		s.Places = int(value)
		return nil
	}
	if err == nil {
		err = fmt.Errorf("spread is %v: a number of places, or a level of a topology", value)
	}
	return err
}
