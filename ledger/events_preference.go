package ledger

import "fmt"

// PreferenceSet says what a named preference is from now on.
type PreferenceSet struct {
	Name   string   `json:"name"`
	Prefer Document `json:"prefer"`
}

// Topic implements Event.
func (PreferenceSet) Topic() Topic { return Topic{} }

func (ev PreferenceSet) form(c *coder) PreferenceSet {
	c.eventFields(2).text(&ev.Name).document(&ev.Prefer)
	return ev
}

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

// Topic implements Event.
func (PreferenceRemoved) Topic() Topic { return Topic{} }

func (ev PreferenceRemoved) form(c *coder) PreferenceRemoved {
	c.eventFields(1).text(&ev.Name)
	return ev
}

func (ev PreferenceRemoved) apply(s *State, _ moment) error {
	before, exists := s.Preference(ev.Name)
	if !exists {
		return fmt.Errorf("%w: there is no preference %q", ErrInvariant, ev.Name)
	}
	replace(s.preferences, &s.changes.Preferences, before, nil)
	return nil
}
