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
