package commands

import (
	"encoding/json"
	"regexp"

	"github.com/allot-project/allot/ledger"
)

// SetPreference gives a preference a name, under which claims and requests for
// candidates may refer to it. Claims that come later are held to what it says
// then. A preference of nothing (null) is removed.
type SetPreference struct {
	operatorsOnly `json:"-"`
	noConsumers   `json:"-"`

	Name   string           `json:"name"` // 1 to 64 letters, digits, "_", "-" and "."
	Prefer *ClaimPreference `json:"prefer" jsonschema:"nullable"`
}

var preferenceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// CommandName implements Command.
func (*SetPreference) CommandName() string { return "SetPreference" }

// Check implements Command.
func (c *SetPreference) Check() *Rejection {
	if r := checkPreferenceName(c.Name); r != nil || c.Prefer == nil {
		return r
	}
	if c.Prefer.Name != "" {
		return invalid("prefer", "a preference with a name cannot refer to another one, %q", c.Prefer.Name)
	}
	if c.Prefer.Seed != nil {
		return invalid("prefer", "a seed is of one claim: with a seed for all of them, all would choose the same")
	}
	if len(c.Prefer.Near) > 0 {
		return invalid("prefer", "which consumers it is near is of one claim: it may stand there beside the name")
	}
	return c.Prefer.Check()
}

func checkPreferenceName(name string) *Rejection {
	if !preferenceName.MatchString(name) || len(name) > ledger.MaxPreferenceName {
		return invalid("name", "%q is not 1 to %d letters, digits, '_', '-' and '.'", name, ledger.MaxPreferenceName)
	}
	return nil
}

// Decide implements Command.
func (c *SetPreference) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	before, exists := s.Preference(c.Name)
	if c.Prefer == nil {
		if !exists {
			return nil, nil
		}
		return []ledger.Event{ledger.PreferenceRemoved{Name: c.Name}}, nil
	}
	if r := c.Prefer.checkNames(s); r != nil {
		return nil, r
	}
	prefer, r := c.Prefer.document()
	if r != nil || exists && before.Prefer == prefer {
		return nil, r
	}
	return []ledger.Event{ledger.PreferenceSet{Name: c.Name, Prefer: prefer}}, nil
}

// document is a preference as the ledger keeps it.
func (p *ClaimPreference) document() (ledger.Document, *Rejection) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", invalid("prefer", "%v", err)
	}
	doc, err := ledger.ParseDocument(text)
	if err != nil {
		return "", invalid("prefer", "%v", err)
	}
	return doc, nil
}

// checkNames wants the classes and traits that a preference names to exist.
func (p *ClaimPreference) checkNames(s *ledger.State) *Rejection {
	for name := range p.Weights {
		if _, known := s.Classes().ID(name); !known {
			return classUnknown(name)
		}
	}
	return p.checkTraits(s)
}

// NamedPreferences finds the document of a preference that has a name.
type NamedPreferences func(name string) (ledger.Document, bool, error)

// Expand returns a preference with what the one has to which it refers. The
// seed and what is near are its own.
func (p *ClaimPreference) Expand(named NamedPreferences) (*ClaimPreference, *Rejection, error) {
	if p == nil || p.Name == "" {
		return p, nil, nil
	}
	doc, exists, err := named(p.Name)
	if err != nil {
		return nil, nil, err
	}
	if !exists {
		return nil, preferenceUnknown(p.Name), nil
	}
	out := &ClaimPreference{}
	if err := json.Unmarshal([]byte(doc.Text()), out); err != nil {
		return nil, nil, err
	}
	out.Name, out.Seed, out.Near = p.Name, p.Seed, p.Near
	return out, nil, nil
}

func preferenceUnknown(name string) *Rejection {
	return &Rejection{
		Code: CodePreferenceUnknown, Message: "there is no preference " + name, Facts: Facts{Name: name},
	}
}

// namedIn finds preferences in a State.
func namedIn(s *ledger.State) NamedPreferences {
	return func(name string) (ledger.Document, bool, error) {
		p, exists := s.Preference(name)
		if !exists {
			return "", false, nil
		}
		return p.Prefer, true, nil
	}
}
