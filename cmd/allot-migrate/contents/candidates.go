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
		Capacity int64 `json:"capacity"`
		Used     int64 `json:"used"`
	} `json:"resources"`
	Traits []string `json:"traits"`
	Parent string   `json:"parent_provider_uuid"`
	Root   string   `json:"root_provider_uuid"`
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
	a, b := left.facts(), right.facts()
	var found []Difference
	for _, field := range slices.Sorted(maps.Keys(union(a, b))) {
		if a[field] != b[field] {
			found = append(found, Difference{What: what, Field: field, Left: a[field], Right: b[field]})
		}
	}
	return found
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
