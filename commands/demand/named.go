package demand

import (
	"encoding/json"
	"regexp"

	"github.com/allot-project/allot/ledger"
)

var preferenceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// CheckPreferenceName finds what is wrong with the name of a preference.
func CheckPreferenceName(name string) *Rejection {
	if !preferenceName.MatchString(name) || len(name) > ledger.MaxPreferenceName {
		return Invalid("name", "%q is not 1 to %d letters, digits, '_', '-' and '.'", name, ledger.MaxPreferenceName)
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
