package present

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Limit is a limit, and what is used of it.
type Limit struct {
	Project string `json:"project_id,omitempty"` // absent: the default of every project
	Class   string `json:"resource_class,omitempty"`
	Type    string `json:"consumer_type,omitempty"`
	// Aggregate is that on whose providers all consumers together are limited.
	Aggregate *ledger.UUID `json:"aggregate,omitempty"`
	Most      int64        `json:"limit"`
	// Used is by the project and those below it; absent for a default.
	Used *int64 `json:"used,omitempty"`
}

// Placed is a project that is below another one.
type Placed struct {
	Project string `json:"project_id"`
	Parent  string `json:"parent_id"`
}

// Limits are the limits and the tree of projects at a moment.
type Limits struct {
	Limits   []Limit  `json:"limits"`
	Projects []Placed `json:"projects"`
}

// LimitsOf lists the limits as they are set; or, of a project, those that hold for it: its
// own and those of the projects above it, and for each of them the defaults in the place of
// limits that it does not have.
func LimitsOf(v projector.View, project string) (*Limits, error) {
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	out := &Limits{Limits: []Limit{}, Projects: []Placed{}}
	below, above := make(map[string][]string), make(map[string]string)
	err = v.ProjectParents(func(p ledger.ProjectParent) bool {
		below[p.Parent] = append(below[p.Parent], p.Project)
		above[p.Project] = p.Parent
		out.Projects = append(out.Projects, Placed(p))
		return true
	})
	if err != nil {
		return nil, err
	}
	set, err := limitsOn(v, project, above)
	if err != nil {
		return nil, err
	}
	held := make(map[string]*projectUse)
	for _, l := range set {
		if _, known := classes.Get(l.Class); l.Type == "" && !known {
			continue // the class is gone
		}
		one := Limit{Project: l.Project, Type: l.Type, Most: l.Most}
		if l.Type == "" {
			one.Class = classes.Name(l.Class)
		}
		if l.Project != "" {
			if held[l.Project] == nil {
				if held[l.Project], err = useOf(v, l.Project, below); err != nil {
					return nil, err
				}
			}
			one.Used = new(held[l.Project].of(l.LimitKey))
		}
		out.Limits = append(out.Limits, one)
	}
	if project != "" {
		return out, nil
	}
	return out, v.AggregateLimits(func(l ledger.AggregateLimit) bool {
		if _, known := classes.Get(l.Class); known {
			out.Limits = append(out.Limits, Limit{
				Aggregate: &l.Aggregate, Class: classes.Name(l.Class), Most: l.Most, Used: &l.Used,
			})
		}
		return true
	})
}

// limitsOn are all limits that are set; or, of a project, those that hold for it.
func limitsOn(v projector.View, project string, above map[string]string) (list []ledger.Limit, err error) {
	var set, defaults []ledger.Limit
	own := make(map[ledger.LimitKey]bool)
	err = v.Limits(func(l ledger.Limit) bool {
		set = append(set, l)
		own[l.LimitKey] = true
		if l.Project == "" {
			defaults = append(defaults, l)
		}
		return true
	})
	if err != nil || project == "" {
		return set, err
	}
	for ; project != ""; project = above[project] {
		for _, l := range set {
			if l.Project == project {
				list = append(list, l)
			}
		}
		for _, l := range defaults {
			if l.Project = project; !own[l.LimitKey] {
				list = append(list, l)
			}
		}
	}
	return list, nil
}

// LimitName says of which limit the versions are wanted.
type LimitName struct {
	Project, Class, Type string
	Aggregate            ledger.UUID // of a class, and of no project
}

// LimitVersion is what a limit was from a commit on; null: there was none.
type LimitVersion struct {
	Sequence uint64 `json:"sequence"`
	Most     *int64 `json:"limit"`
}

// LimitVersions are all versions of a limit, the newest first.
type LimitVersions struct {
	Versions []LimitVersion `json:"versions"`
	// Incomplete means that there may be older ones.
	Incomplete bool `json:"incomplete,omitempty"`
}

// maxVersions bounds a history; the newest are told.
const maxVersions = 1000

// LimitVersionsOf tells what a limit was up to the view's moment; false: the view has
// no class of that name.
func LimitVersionsOf(v projector.View, name LimitName) (*LimitVersions, bool, error) {
	return limitVersions(v, name, maxVersions)
}

func limitVersions(v projector.View, name LimitName, most int) (*LimitVersions, bool, error) {
	out := &LimitVersions{Versions: []LimitVersion{}}
	take := func(limit *int64, sequence uint64) bool {
		out.Versions = append(out.Versions, LimitVersion{sequence, limit})
		out.Incomplete = len(out.Versions) == most
		return !out.Incomplete
	}
	var class ledger.ClassID
	if name.Class != "" {
		classes, err := v.Classes()
		if err != nil {
			return nil, false, err
		}
		known := false
		if class, known = classes.ID(name.Class); !known {
			return nil, false, nil
		}
	}
	if !name.Aggregate.IsNil() {
		return out, true, v.AggregateLimitVersions(ledger.AggregateKey{Aggregate: name.Aggregate, Class: class}, take)
	}
	return out, true, v.LimitVersions(ledger.LimitKey{Project: name.Project, Class: class, Type: name.Type}, take)
}

type projectUse struct {
	amounts map[ledger.ClassID]int64
	counts  map[string]int64
}

func (u *projectUse) of(key ledger.LimitKey) int64 {
	if key.Type != "" {
		return u.counts[key.Type]
	}
	return u.amounts[key.Class]
}

func useOf(v projector.View, project string, below map[string][]string) (*projectUse, error) {
	u := &projectUse{amounts: make(map[ledger.ClassID]int64), counts: make(map[string]int64)}
	for next := []string{project}; len(next) > 0; next = next[1:] {
		usages, err := v.Usages(next[0], "")
		if err != nil {
			return nil, err
		}
		for _, one := range usages {
			u.counts[ledger.TypeOf(one.Owner.Type)] += one.Consumers
			for _, a := range one.Amounts {
				u.amounts[a.Class] += a.Amount
			}
		}
		next = append(next, below[next[0]]...)
	}
	return u, nil
}

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

// Topology is a topology without its members.
type Topology struct {
	Name     string   `json:"name"`
	Levels   []string `json:"levels"`
	Members  int      `json:"member_count"`
	Sequence uint64   `json:"sequence"` // of the commit that set it
}

// Topologies are all of them, by name.
type Topologies struct {
	Topologies []Topology `json:"topologies"`
}

// TopologyVersion is a commit that set a topology; null members: it removed it.
type TopologyVersion struct {
	Sequence uint64 `json:"sequence"`
	Members  *int   `json:"member_count"`
}

// TopologyHistory is a topology with the commits of its versions, the newest first.
type TopologyHistory struct {
	Name     string                           `json:"name"`
	Levels   []string                         `json:"levels"`
	Members  map[string]demand.TopologyMember `json:"members"`
	Versions []TopologyVersion                `json:"versions"`
	// Incomplete means that there may be older ones.
	Incomplete bool `json:"incomplete,omitempty"`
}

// TopologiesOf lists the topologies of a moment.
func TopologiesOf(v projector.View) (*Topologies, error) {
	out := &Topologies{Topologies: []Topology{}}
	err := v.Topologies(func(t *ledger.Topology, sequence uint64) bool {
		out.Topologies = append(out.Topologies, Topology{t.Name, t.Levels, len(t.Members), sequence})
		return true
	})
	slices.SortFunc(out.Topologies, func(a, b Topology) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// TopologyOf tells a topology with its history; nil: there is none at the view's moment.
func TopologyOf(v projector.View, name string) (*TopologyHistory, error) {
	var out *TopologyHistory
	err := v.TopologyVersions(name, func(t *ledger.Topology, sequence uint64) bool {
		one := TopologyVersion{Sequence: sequence}
		if t != nil {
			one.Members = new(len(t.Members))
		}
		if out == nil {
			if t == nil {
				return false
			}
			now := demand.TopologyOf(t)
			out = &TopologyHistory{Name: name, Levels: now.Levels, Members: now.Members}
		}
		out.Versions = append(out.Versions, one)
		out.Incomplete = len(out.Versions) == maxVersions
		return !out.Incomplete
	})
	return out, err
}
