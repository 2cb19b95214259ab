package ledger

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
