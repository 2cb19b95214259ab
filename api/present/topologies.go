package present

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

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
			n := len(t.Members)
			one.Members = &n
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
