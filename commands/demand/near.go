package demand

import (
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Bounds of what a preference says about other consumers.
const (
	maxNear          = 16
	maxNearConsumers = 256
)

// NearConsumers is about candidates that are near where other consumers hold
// something. Consumers that hold nothing count for nothing, and where none of
// them does, nothing is said: the first of a group goes anywhere. Its members
// stand in the order of their names, as they are kept.
type NearConsumers struct {
	// By says what near is: "provider", the same one; "tree", under the same root;
	// "aggregate", in an aggregate of theirs, or under a root that is.
	By        string        `json:"by"`
	Consumers []ledger.UUID `json:"consumers"` // 1 to 256
	// Rule is "require" or "forbid"; empty: it has a weight.
	Rule string `json:"rule,omitempty"`
	// Weight is preferred if it is above 0, and avoided if it is below.
	Weight Weight `json:"weight,omitempty"`
}

var (
	reaches = map[string]wanted.Reach{
		"provider": wanted.SameProvider, "tree": wanted.SameTree, "aggregate": wanted.SameAggregate,
	}
	nearRules = map[string]wanted.NearRule{
		"": wanted.PreferNear, "require": wanted.RequireNear, "forbid": wanted.ForbidNear,
	}
)

func (n *NearConsumers) check() *Rejection {
	if _, known := reaches[n.By]; !known {
		return Invalid("prefer", "near by %q: \"provider\", \"tree\" and \"aggregate\" are possible", n.By)
	}
	rule, known := nearRules[n.Rule]
	if !known {
		return Invalid("prefer", "a rule %q: \"require\" and \"forbid\" are possible, or a weight without one", n.Rule)
	}
	if (rule == wanted.PreferNear) == (n.Weight == 0) {
		return Invalid("prefer", "near has a rule or a weight that is not 0, and not both")
	}
	if k := len(n.Consumers); k == 0 || k > maxNearConsumers {
		return Invalid("prefer", "near is about 1 to %d consumers, not %d", maxNearConsumers, k)
	}
	for i, id := range n.Consumers {
		if id.IsNil() || slices.Contains(n.Consumers[:i], id) {
			return Invalid("prefer", "near: consumer %s is given twice, or is none", id)
		}
	}
	return checkWeight("near", n.Weight)
}

// Nearness looks up where the consumers are.
func (p *ClaimPreference) Nearness(
	held func(ledger.UUID) ([]ledger.Allocation, error),
) (list []wanted.Near, err error) {
	if p == nil {
		return nil, nil
	}
	for i := range p.Near {
		near := wanted.Near{
			Reach: reaches[p.Near[i].By], Rule: nearRules[p.Near[i].Rule], Weight: float64(p.Near[i].Weight),
		}
		seen := make(map[ledger.UUID]bool)
		for _, id := range p.Near[i].Consumers {
			allocations, err := held(id)
			if err != nil {
				return nil, err
			}
			for _, a := range allocations {
				if !seen[a.Provider] {
					seen[a.Provider] = true
					near.Providers = append(near.Providers, a.Provider)
				}
			}
		}
		list = append(list, near)
	}
	return list, nil
}

// Strict reports whether there are rules that candidates must obey.
func (p *ClaimPreference) Strict() bool {
	return p != nil && slices.ContainsFunc(p.Near, func(n NearConsumers) bool { return n.Rule != "" })
}
