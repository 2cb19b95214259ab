package demand

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/allot-project/allot/ledger"
)

// names says what isName accepts.
var names = fmt.Sprintf("1 to %d letters, digits, '_', '-' and '.'", ledger.MaxPreferenceName)

var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// isName reports whether a preference, a level or a domain may be called so.
func isName(text string) bool {
	return len(text) <= ledger.MaxPreferenceName && plainName.MatchString(text)
}

// CheckPreferenceName finds what is wrong with the name of a preference.
func CheckPreferenceName(name string) *Rejection {
	if !isName(name) {
		return Invalid("name", "%q is not %s", name, names)
	}
	return nil
}

// Document is a preference as the ledger keeps it.
func (p *ClaimPreference) Document() (ledger.Document, *Rejection) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", Invalid("prefer", "%v", err)
	}
	doc, err := ledger.ParseDocument(text)
	if err != nil {
		return "", Invalid("prefer", "%v", err)
	}
	return doc, nil
}

// CheckNames wants the classes and traits that a preference names to exist.
func (p *ClaimPreference) CheckNames(s *ledger.State) *Rejection {
	for name := range p.Weights {
		if _, known := s.Classes().ID(name); !known {
			return ClassUnknown(name)
		}
	}
	return p.CheckTraits(s)
}

// NamedPreferences finds the preference that has a name.
type NamedPreferences func(name string) (p *ledger.Preference, exists bool, err error)

// Expand returns a preference with what the one has to which it refers. The
// seed and what is near are its own.
func (p *ClaimPreference) Expand(named NamedPreferences) (*ClaimPreference, *Rejection, error) {
	if p == nil || p.Name == "" {
		return p, nil, nil
	}
	kept, exists, err := named(p.Name)
	if err != nil {
		return nil, nil, err
	}
	if !exists {
		return nil, Refuse(CodePreferenceUnknown, Facts{Name: p.Name}, "there is no preference %s", p.Name), nil
	}
	out := &ClaimPreference{}
	if err := json.Unmarshal([]byte(kept.Prefer.Text()), out); err != nil {
		return nil, nil, err
	}
	out.Name, out.Seed, out.Near = p.Name, p.Seed, p.Near
	return out, nil, nil
}

// Named finds what has a name.
type Named struct {
	Preference NamedPreferences
	Topology   NamedTopologies
}

// NamedTopologies finds the topology that has a name.
type NamedTopologies func(name string) (t *ledger.Topology, exists bool, err error)

// InTopology finds the topology in which a gang stands, and how, for a number of members; nil: in
// none.
func InTopology(
	gang []GangRule, members int, named NamedTopologies,
) (kept *ledger.Topology, how *TopologyGang, r *Rejection, err error) {
	levels, _ := PartGang(gang)
	if len(levels) == 0 {
		return nil, nil, nil, nil
	}
	rule := &levels[0]
	kept, exists, err := named(rule.Topology)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case !exists:
		r := Refuse(CodeTopologyUnknown, Facts{Name: rule.Topology}, "there is no topology %s", rule.Topology)
		return nil, nil, r, nil
	}
	how = rule.Levels()
	return kept, how, how.Check(kept.Levels, members), nil
}

// NamedIn finds what has a name in a State.
func NamedIn(s *ledger.State) Named {
	return Named{
		Preference: func(name string) (*ledger.Preference, bool, error) {
			p, exists := s.Preference(name)
			return p, exists, nil
		},
		Topology: func(name string) (*ledger.Topology, bool, error) {
			t, exists := s.Topology(name)
			return t, exists, nil
		},
	}
}
