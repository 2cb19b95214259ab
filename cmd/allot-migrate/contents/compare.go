package contents

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// Difference is one thing that two ledgers, or a Placement and a ledger, do not have in common.
type Difference struct {
	What  string `json:"what"`  // "provider UUID", "consumer UUID", "class NAME", "trait NAME"
	Field string `json:"field"` // "" if one of them lacks the whole
	Left  string `json:"left"`  // "" if it is missing
	Right string `json:"right"` // "" if it is missing
}

// Compare lists the differences of two plans, sorted. The generations of consumers are left out, because a
// ledger's are sequences; so are times, which the API does not tell.
func Compare(left, right *Plan) []Difference {
	a, b := left.facts(), right.facts()
	var found []Difference
	for what := range union(a, b) {
		x, inLeft := a[what]
		y, inRight := b[what]
		if !inLeft || !inRight {
			there := map[bool]string{true: "exists"}
			found = append(found, Difference{What: what, Left: there[inLeft], Right: there[inRight]})
		} else {
			found = append(found, differing(what, x, y)...)
		}
	}
	slices.SortFunc(found, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(x.What, y.What), cmp.Compare(x.Field, y.Field))
	})
	return found
}

func differing(what string, x, y map[string]string) (found []Difference) {
	for _, field := range slices.Sorted(maps.Keys(union(x, y))) {
		if x[field] != y[field] {
			found = append(found, Difference{What: what, Field: field, Left: x[field], Right: y[field]})
		}
	}
	return found
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

// Candidates are an answer to a request for allocation candidates.
type Candidates struct {
	Failure  string // the status of a refusal; "": none
	Requests []CandidateRequest
	// Summaries are by the uuids of providers.
	Summaries map[string]CandidateSummary
}

// CandidateRequest is one way to allocate what was asked for.
type CandidateRequest struct {
	Allocations map[string]struct {
		Resources map[string]int64 `json:"resources"`
	} `json:"allocations"`
	Mappings map[string][]string `json:"mappings"`
}

// CandidateSummary is what a provider has and holds.
type CandidateSummary struct {
	Resources map[string]struct {
		Capacity wholeNumber `json:"capacity"`
		Used     int64       `json:"used"`
	} `json:"resources"`
	Traits []string `json:"traits"`
	Parent string   `json:"parent_provider_uuid"`
	Root   string   `json:"root_provider_uuid"`
}

// wholeNumber is one as it is written: the capacity of a huge ratio is no int64.
type wholeNumber string

// UnmarshalJSON implements json.Unmarshaler.
func (n *wholeNumber) UnmarshalJSON(text []byte) error {
	*n = wholeNumber(text)
	return nil
}

// CompareCandidates lists the differences of two answers to one request. The order of
// candidates is not compared, because neither side promises one.
func CompareCandidates(query string, left, right *Candidates) []Difference {
	what := "candidates of " + query
	if left.Failure != right.Failure {
		return []Difference{{
			What: what, Field: "status", Left: cmp.Or(left.Failure, "OK"), Right: cmp.Or(right.Failure, "OK"),
		}}
	}
	return differing(what, left.facts(), right.facts())
}

// facts are the answer in words. fmt prints maps in the order of their keys.
func (c *Candidates) facts() map[string]string {
	facts := make(map[string]string, len(c.Requests)+len(c.Summaries))
	for _, r := range c.Requests {
		for _, providers := range r.Mappings {
			slices.Sort(providers)
		}
		facts[fmt.Sprintf("candidate %v for %v", r.Allocations, r.Mappings)] = "exists"
	}
	for uuid, s := range c.Summaries {
		slices.Sort(s.Traits)
		facts["summary of "+uuid] = fmt.Sprintf("%v", s)
	}
	return facts
}

// Flavours are requests for candidates that ask for what consumers of the plan hold
// in all, each kind once: at most n, spread evenly over all kinds.
func (p *Plan) Flavours(n int) []string {
	kinds := make(map[string]bool)
	for i := range p.Consumers {
		sums := make(map[string]int64)
		for _, a := range p.Consumers[i].Allocations {
			sums[a.Class] += a.Amount
		}
		var list []string
		for _, class := range slices.Sorted(maps.Keys(sums)) {
			if sums[class] <= ledger.MaxAmount {
				list = append(list, fmt.Sprintf("%s:%d", class, sums[class]))
			}
		}
		if list != nil {
			kinds["resources="+url.QueryEscape(strings.Join(list, ","))] = true
		}
	}
	all := slices.Sorted(maps.Keys(kinds))
	if len(all) <= n {
		return all
	}
	picked := make([]string, 0, n)
	for i := range n {
		picked = append(picked, all[i*len(all)/n])
	}
	return picked
}
