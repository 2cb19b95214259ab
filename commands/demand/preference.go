package demand

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Orders of a ClaimPreference.
const (
	// OrderPack prefers what has the least left, OrderSpread what has the most,
	// of the classes that are asked for; OrderRandom draws.
	OrderPack   = "pack"
	OrderSpread = "spread"
	OrderRandom = "random"
)

// maxWeight is how much one preference can weigh at most, either way.
const maxWeight = 1e6

// maxPreferences is how many weights of each kind there may be.
const maxPreferences = 64

// ClaimPreference says which candidates are better. Its score is the sum of
// weighted free shares, and of what is wanted or avoided; see
// wanted.Preference. Its members stand in the order of their names, as they
// are kept.
type ClaimPreference struct {
	Aggregates []AggregatePreference `json:"aggregates,omitempty"`
	// Name is that of a preference in the ledger, which says all but the seed and what
	// is near.
	Name string `json:"name,omitempty"`
	// Near is about where other consumers are.
	Near []NearConsumers `json:"near,omitempty"`
	// Order is pack, spread or random; empty: as the weights say.
	Order string `json:"order,omitempty"`
	// Seed decides between equal candidates; absent: it comes from the command id.
	Seed *uint64 `json:"seed,omitempty"`
	// Traits are preferred, or avoided if the weight is below 0.
	Traits map[string]Weight `json:"traits,omitempty"`
	// Weights are of the free shares of classes.
	Weights map[string]Weight `json:"weights,omitempty"`
}

// Weight is how much something counts: preferred if it is above 0, avoided if it is
// below, up to a million either way.
type Weight float64

var errNoWeight = errors.New("a weight is a number, and null is none")

// UnmarshalJSON implements json.Unmarshaler. Unlike for a float64, null is an error and
// not 0: its sender has a weight that is not finite, or none.
func (w *Weight) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return errNoWeight
	}
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("the weight %.32s is not a number", text)
	}
	*w = Weight(number)
	return nil
}

// msgpack decodes null as 0 before it asks a msgpack.CustomDecoder, but not before what is
// registered.
func init() {
	msgpack.Register(Weight(0), nil, func(d *msgpack.Decoder, v reflect.Value) error {
		if code, err := d.PeekCode(); err != nil || code == msgpcode.Nil {
			return cmp.Or(err, errNoWeight)
		}
		number, err := d.DecodeFloat64()
		v.SetFloat(number)
		return err
	})
}

// AggregatePreference is what it is worth to be in an aggregate.
type AggregatePreference struct {
	Aggregate ledger.UUID `json:"aggregate"`
	Weight    Weight      `json:"weight"`
}

// Check finds what is wrong with a preference whatever the State.
func (p *ClaimPreference) Check() *Rejection {
	if p.Name != "" {
		if len(p.Order) > 0 || len(p.Weights)+len(p.Traits)+len(p.Aggregates) > 0 {
			return Invalid("prefer", "%q says what is preferred: only a seed and near may stand beside a name", p.Name)
		}
		return cmp.Or(CheckPreferenceName(p.Name), p.checkNear())
	}
	switch p.Order {
	case "":
	case OrderPack, OrderSpread, OrderRandom:
		if len(p.Weights) > 0 {
			return Invalid("prefer", "the order %s contradicts weights of classes", p.Order)
		}
	default:
		return Invalid("prefer", "there is no order %q: %s, %s and %s are", p.Order, OrderPack, OrderSpread, OrderRandom)
	}
	if n := max(len(p.Weights), len(p.Traits), len(p.Aggregates)); n > maxPreferences {
		return Invalid("prefer", "%d weights are too many: %d of each kind are possible", n, maxPreferences)
	}
	seen := make(map[ledger.UUID]bool, len(p.Aggregates))
	for _, a := range p.Aggregates {
		if seen[a.Aggregate] {
			return Invalid("prefer", "aggregate %s is given twice", a.Aggregate)
		}
		seen[a.Aggregate] = true
		if r := checkWeight("aggregate "+a.Aggregate.String(), a.Weight); r != nil {
			return r
		}
	}
	for _, table := range []map[string]Weight{p.Weights, p.Traits} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if r := checkWeight(name, table[name]); r != nil {
				return r
			}
		}
	}
	return p.checkNear()
}

func (p *ClaimPreference) checkNear() *Rejection {
	if n := len(p.Near); n > maxNear {
		return Invalid("prefer", "near %d groups of consumers: at most %d are possible", n, maxNear)
	}
	for i := range p.Near {
		if r := p.Near[i].check(); r != nil {
			return r
		}
	}
	return nil
}

func checkWeight(what string, weight Weight) *Rejection {
	if math.IsNaN(float64(weight)) || math.Abs(float64(weight)) > maxWeight {
		return Invalid("prefer", "the weight %v of %s is not a number within +-%v", weight, what, float64(maxWeight))
	}
	return nil
}

// Resolve looks up the classes that a preference names.
func (p *ClaimPreference) Resolve(
	classes *ledger.ClassTable, req *wanted.Request, seed uint64,
) (*wanted.Preference, *Rejection) {
	out := &wanted.Preference{Seed: seed}
	if p == nil {
		return out, nil
	}
	if p.Seed != nil {
		out.Seed = *p.Seed
	}
	out.Random = p.Order == OrderRandom
	for name, weight := range p.Weights {
		id, known := classes.ID(name)
		if !known {
			return nil, ClassUnknown(name)
		}
		out.Weights = append(out.Weights, wanted.ClassWeight{Class: id, Weight: float64(weight)})
	}
	switch p.Order {
	case OrderPack:
		out.Weights = askedWeights(req, -1)
	case OrderSpread:
		out.Weights = askedWeights(req, 1)
	}
	slices.SortFunc(out.Weights, func(a, b wanted.ClassWeight) int { return cmp.Compare(a.Class, b.Class) })
	for _, name := range slices.Sorted(maps.Keys(p.Traits)) {
		out.Traits = append(out.Traits, wanted.TraitWeight{Trait: name, Weight: float64(p.Traits[name])})
	}
	for _, a := range p.Aggregates {
		out.Aggregates = append(out.Aggregates, wanted.AggregateWeight{Aggregate: a.Aggregate, Weight: float64(a.Weight)})
	}
	return out, nil
}

func askedWeights(req *wanted.Request, weight float64) (weights []wanted.ClassWeight) {
	for i := range req.Groups {
		for _, r := range req.Groups[i].Resources {
			one := wanted.ClassWeight{Class: r.Class, Weight: weight}
			if !slices.Contains(weights, one) {
				weights = append(weights, one)
			}
		}
	}
	return weights
}

// CheckTraits wants every trait that a preference names to exist.
func (p *ClaimPreference) CheckTraits(s *ledger.State) *Rejection {
	if p == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Traits)) {
		if !s.HasTrait(name) {
			return TraitUnknown([]string{name})
		}
	}
	return nil
}

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
