package placement

import (
	"maps"
	"slices"

	"github.com/allot-project/allot/ledger"
)

func showProviderUsages(r *request, p *ledger.Provider) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	usages := make(ordered[int64], len(p.Inventories))
	for i, inv := range p.Inventories {
		usages[i] = pair[int64]{classes.Name(inv.Class), inv.Used}
	}
	return ok(m{"resource_provider_generation": p.Generation, "usages": usages}, 0), nil
}

// consumerTypesSince is the microversion from which consumers have types.
const consumerTypesSince version = 38

// Values of consumer_type with a special meaning. Stored types are upper case, so
// they cannot clash.
const (
	everyType   = "all"
	withoutType = ledger.UnknownType
)

func showUsages(r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	usages, err := r.View.Usages(r.Query.Get("project_id"), r.Query.Get("user_id"))
	if err != nil {
		return nil, err
	}
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	if r.version < consumerTypesSince {
		return ok(m{"usages": totals(classes, usages)}, 0), nil
	}
	return ok(m{"usages": totalsByType(classes, usages, r.Query.Get("consumer_type"))}, 0), nil
}

func totals(classes *ledger.ClassTable, usages []*ledger.Usage) ordered[int64] {
	sums := make(map[ledger.ClassID]int64)
	for _, u := range usages {
		for _, a := range u.Amounts {
			sums[a.Class] += a.Amount
		}
	}
	return byClass(classes, sums)
}

func byClass(classes *ledger.ClassTable, amounts map[ledger.ClassID]int64) ordered[int64] {
	list := make(ordered[int64], 0, len(amounts))
	for _, id := range slices.Sorted(maps.Keys(amounts)) {
		list = append(list, pair[int64]{classes.Name(id), amounts[id]})
	}
	return list
}

// totalsByType groups usages by consumer type. wanted is one type, "unknown" for
// consumers without one, "all" for one group of everything, or "".
func totalsByType(classes *ledger.ClassTable, usages []*ledger.Usage, wanted string) map[string]ordered[int64] {
	amounts := make(map[string]map[ledger.ClassID]int64)
	consumers := make(map[string]int64)
	for _, u := range usages {
		group := u.Owner.Type
		if group == "" {
			group = withoutType
		}
		switch {
		case wanted == everyType:
			group = everyType
		case wanted != "" && wanted != group:
			continue
		}
		if amounts[group] == nil {
			amounts[group] = make(map[ledger.ClassID]int64)
		}
		consumers[group] += u.Consumers
		for _, a := range u.Amounts {
			amounts[group][a.Class] += a.Amount
		}
	}
	groups := make(map[string]ordered[int64])
	for group, sums := range amounts {
		groups[group] = append(byClass(classes, sums), pair[int64]{"consumer_count", consumers[group]})
	}
	return groups
}
