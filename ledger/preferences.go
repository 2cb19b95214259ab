package ledger

import (
	"github.com/allot-project/allot/ledger/ordered"
)

// MaxPreferenceName is the size of the longest name of a preference, in bytes.
const MaxPreferenceName = 64

// Preference says under a name which candidates are better, so that claims can
// refer to it. What the document means is the business of claims.
type Preference struct {
	Name   string
	Prefer Document
}

type preferenceTable struct{ preferences ordered.Tree[*Preference] }

func newPreferenceTable() preferenceTable {
	return preferenceTable{
		ordered.New(func(a, b *Preference) bool { return a.Name < b.Name }),
	}
}

func (t *preferenceTable) forkPreferences() preferenceTable {
	return preferenceTable{ordered.Copy(t.preferences)}
}

// Preference finds a preference by its name.
func (s *State) Preference(name string) (*Preference, bool) {
	return s.preferences.Get(&Preference{Name: name})
}

// Preferences calls yield for each preference by name until it returns false.
func (s *State) Preferences(yield func(*Preference) bool) { s.preferences.Scan(yield) }

// setPreference sets a preference, or with nil removes it.
func (s *State) setPreference(before, after *Preference) {
	s.changes.Preferences = append(s.changes.Preferences, PreferenceChange{Before: before, After: after})
	s.indexPreference(before, after)
}

func (s *State) indexPreference(before, after *Preference) {
	if after == nil {
		s.preferences.Delete(before)
		return
	}
	s.preferences.Set(after)
}

// undoPreferences puts preferences back as they were.
func (s *State) undoPreferences(changes Changes) {
	for i := len(changes.Preferences) - 1; i >= 0; i-- {
		s.indexPreference(changes.Preferences[i].After, changes.Preferences[i].Before)
	}
}

func (p *Preference) form(c *coder) { c.fields("preference", 2).text(&p.Name).document(&p.Prefer) }

// readPreferences reads what Encode wrote of preferences.
func (s *State) readPreferences(d *decoder) error {
	return readEach(d, (*Preference).form, func(p *Preference) error { s.preferences.Set(p); return nil })
}
