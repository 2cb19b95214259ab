package contents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Difference is one thing that two ledgers, or a Placement and a ledger, do not
// have in common.
type Difference struct {
	What  string `json:"what"`  // "provider UUID", "consumer UUID", "class NAME", "trait NAME"
	Field string `json:"field"` // "" if one of them lacks the whole
	Left  string `json:"left"`  // "" if it is missing
	Right string `json:"right"` // "" if it is missing
}

// Compare lists the differences of two plans, sorted. The generations of consumers
// are left out, because a ledger's are sequences; so are times, which the API does
// not tell.
func Compare(left, right *Plan) []Difference {
	a, b := left.facts(), right.facts()
	var found []Difference
	for what := range union(a, b) {
		x, inLeft := a[what]
		y, inRight := b[what]
		if !inLeft || !inRight {
			found = append(found, Difference{What: what, Left: there(inLeft), Right: there(inRight)})
			continue
		}
		for field := range union(x, y) {
			if x[field] != y[field] {
				found = append(found, Difference{What: what, Field: field, Left: x[field], Right: y[field]})
			}
		}
	}
	slices.SortFunc(found, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(x.What, y.What), cmp.Compare(x.Field, y.Field))
	})
	return found
}

func there(is bool) string {
	if is {
		return "exists"
	}
	return ""
}

func union[V any](a, b map[string]V) map[string]bool {
	keys := make(map[string]bool, len(a))
	for _, side := range []map[string]V{a, b} {
		for key := range side {
			keys[key] = true
		}
	}
	return keys
}

// facts are the plan's contents in words, by entity and field.
func (p *Plan) facts() map[string]map[string]string {
	all := make(map[string]map[string]string, len(p.Providers)+len(p.Consumers))
	for _, class := range p.Classes {
		all["class "+class.Name] = nil
	}
	for _, name := range p.Traits {
		all["trait "+name] = nil
	}
	used := make(map[ledger.UUID]map[string]int64)
	for i := range p.Consumers {
		c := &p.Consumers[i]
		fields := map[string]string{"project": c.Project, "user": c.User, "type": c.Type}
		for _, a := range c.Allocations {
			fields[fmt.Sprintf("allocation of %s on %s", a.Class, a.Provider)] = fmt.Sprint(a.Amount)
			if used[a.Provider] == nil {
				used[a.Provider] = make(map[string]int64)
			}
			used[a.Provider][a.Class] += a.Amount
		}
		all["consumer "+c.Consumer.String()] = fields
	}
	for _, u := range p.Unseen {
		if used[u.Provider] == nil {
			used[u.Provider] = make(map[string]int64)
		}
		used[u.Provider][u.Class] += u.Used - u.Seen
	}
	for i := range p.Providers {
		pr := &p.Providers[i]
		fields := map[string]string{
			"name": pr.Name, "generation": fmt.Sprint(pr.Generation), "parent": pr.Parent.String(),
			"traits":     fmt.Sprint(pr.Traits),
			"aggregates": fmt.Sprint(slices.SortedFunc(slices.Values(pr.Aggregates), ledger.UUID.Compare)),
		}
		if len(pr.Counters)+len(pr.Draws) > 0 {
			fields["counters"] = fmt.Sprintf("%+v, draws %+v", pr.Counters, pr.Draws)
		}
		for _, inv := range pr.Inventories {
			fields["inventory of "+inv.Class] = fmt.Sprintf("%+v", inv.InventoryRecord)
		}
		for _, class := range slices.Sorted(maps.Keys(used[pr.Provider])) {
			fields["usage of "+class] = fmt.Sprint(used[pr.Provider][class])
		}
		all["provider "+pr.Provider.String()] = fields
	}
	return all
}
