package present

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Preference is a preference that has a name.
type Preference struct {
	Name     string          `json:"name"`
	Prefer   ledger.Document `json:"prefer"`
	Sequence uint64          `json:"sequence"` // of the commit that set it
}

// Preferences are all of them, by name.
type Preferences struct {
	Preferences []Preference `json:"preferences"`
}

// PreferenceVersion is what a preference was from a commit on; null: there was
// none.
type PreferenceVersion struct {
	Sequence uint64           `json:"sequence"`
	Prefer   *ledger.Document `json:"prefer"`
}

// PreferenceHistory is a preference with all its versions, the newest first.
type PreferenceHistory struct {
	Name     string              `json:"name"`
	Prefer   *ledger.Document    `json:"prefer"` // null: there is none any more
	Versions []PreferenceVersion `json:"versions"`
	// Incomplete means that there may be older ones.
	Incomplete bool `json:"incomplete,omitempty"`
}

// PreferencesOf lists the preferences of a moment.
func PreferencesOf(v projector.View) (*Preferences, error) {
	out := &Preferences{Preferences: []Preference{}}
	err := v.Preferences(func(p *ledger.Preference, sequence uint64) bool {
		out.Preferences = append(out.Preferences, Preference{p.Name, p.Prefer, sequence})
		return true
	})
	slices.SortFunc(out.Preferences, func(a, b Preference) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// PreferenceOf tells a preference with its history; nil: no preference had the
// name up to the view's moment.
func PreferenceOf(v projector.View, name string) (*PreferenceHistory, error) {
	out := &PreferenceHistory{Name: name}
	err := v.PreferenceVersions(name, func(p *ledger.Preference, sequence uint64) bool {
		one := PreferenceVersion{Sequence: sequence}
		if p != nil {
			one.Prefer = &p.Prefer
		}
		out.Versions = append(out.Versions, one)
		out.Incomplete = len(out.Versions) == maxVersions
		return !out.Incomplete
	})
	if err != nil || len(out.Versions) == 0 {
		return nil, err
	}
	out.Prefer = out.Versions[0].Prefer
	return out, nil
}
