package ledger

import "fmt"

// PreferenceSet says what a named preference is from now on.
type PreferenceSet struct {
	Name   string   `json:"name"`
	Prefer Document `json:"prefer"`
}

func (ev *PreferenceSet) form(c *coder) { c.eventFields(2).text(&ev.Name).document(&ev.Prefer) }

func (ev PreferenceSet) apply(s *State, _ moment) error {
	if ev.Name == "" || len(ev.Name) > MaxPreferenceName {
		return fmt.Errorf("%w: a preference cannot have the name %q", ErrInvariant, ev.Name)
	}
	before, _ := s.Preference(ev.Name)
	replace(s.preferences, &s.changes.Preferences, before, &Preference{ev.Name, ev.Prefer})
	return nil
}

// PreferenceRemoved says that there is such a preference no more.
type PreferenceRemoved struct {
	Name string `json:"name"`
}

func (ev *PreferenceRemoved) form(c *coder) { c.eventFields(1).text(&ev.Name) }

func (ev PreferenceRemoved) apply(s *State, _ moment) error {
	before, exists := s.Preference(ev.Name)
	if !exists {
		return fmt.Errorf("%w: there is no preference %q", ErrInvariant, ev.Name)
	}
	replace(s.preferences, &s.changes.Preferences, before, nil)
	return nil
}

// MaxPreferenceName is the size of the longest name of a preference, in bytes.
const MaxPreferenceName = 64

// Preference says under a name which candidates are better, so that claims can
// refer to it. What the document means is the business of claims.
type Preference struct {
	Name   string
	Prefer Document
}

// Preference finds a preference by its name.
func (s *State) Preference(name string) (*Preference, bool) {
	return s.preferences.Get(&Preference{Name: name})
}

// Preferences calls yield for each preference by name until it returns false.
func (s *State) Preferences(yield func(*Preference) bool) { s.preferences.Scan(yield) }

func (p *Preference) form(c *coder) { c.fields("preference", 2).text(&p.Name).document(&p.Prefer) }
