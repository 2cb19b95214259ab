package placement

import (
	"github.com/allot-project/allot/ledger"
)

func showProviderUsages(_ *Handler, r *request) (*response, error) {
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	classes, err := r.view.Classes()
	if err != nil {
		return nil, err
	}
	usages := make(map[string]int64, len(p.Inventories))
	for _, inv := range p.Inventories {
		usages[classes.Name(inv.Class)] = inv.Used
	}
	return ok(m{"resource_provider_generation": p.Generation, "usages": usages}, 0), nil
}

// consumerTypesSince is the microversion from which consumers have types.
const consumerTypesSince version = 38

// Values of consumer_type with a meaning of their own. Types that are stored
// are upper case, so they cannot clash.
const (
	everyType   = "all"
	withoutType = ledger.UnknownType
)

func showUsages(_ *Handler, r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	usages, err := r.view.Usages(r.query.Get("project_id"), r.query.Get("user_id"))
	if err != nil {
		return nil, err
	}
	classes, err := r.view.Classes()
	if err != nil {
		return nil, err
	}
	if r.version < consumerTypesSince {
		return ok(m{"usages": totals(classes, usages)}, 0), nil
	}
	return ok(m{"usages": totalsByType(classes, usages, r.query.Get("consumer_type"))}, 0), nil
}

func totals(classes *ledger.ClassTable, usages []*ledger.Usage) map[string]int64 {
	sums := make(map[string]int64)
	for _, u := range usages {
		for _, a := range u.Amounts {
			sums[classes.Name(a.Class)] += a.Amount
		}
	}
	return sums
}

// totalsByType groups usages by consumer type; wanted is one type, "unknown"
// for consumers without one, "all" for one group of everything, or "".
func totalsByType(classes *ledger.ClassTable, usages []*ledger.Usage, wanted string) map[string]map[string]int64 {
	groups := make(map[string]map[string]int64)
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
		if groups[group] == nil {
			groups[group] = make(map[string]int64)
		}
		groups[group]["consumer_count"] += u.Consumers
		for _, a := range u.Amounts {
			groups[group][classes.Name(a.Class)] += a.Amount
		}
	}
	return groups
}
