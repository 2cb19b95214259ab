package placement_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
)

// rankedAnswer is the answer of GET /allocation_candidates with prefer.
type rankedAnswer struct {
	Requests []struct {
		Allocations map[string]any `json:"allocations"`
	} `json:"allocation_requests"`
	Ranking []struct {
		Score  float64 `json:"score"`
		Marker string  `json:"marker"`
	} `json:"ranking"`
}

func (a *rankedAnswer) providers() (ids []string) {
	for _, one := range a.Requests {
		for id := range one.Allocations {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestRankedCandidates: with prefer the best candidates come first, in pages that
// are the same for as long as they are asked as of one commit; without it nothing
// is different.
func TestRankedCandidates(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	var hosts []string
	for i := range 7 {
		id := l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 16})
		l.Accept(t, commandstest.Allocate(commandstest.NewID(), id, "VCPU", int64(2*i+1)))
		hosts = append(hosts, id.String())
	}
	get := func(query string) rankedAnswer {
		t.Helper()
		return told[rankedAnswer](t, h, "latest", "/allocation_candidates?"+query)
	}
	prefer := "&prefer=" + url.QueryEscape(`{"order":"pack"}`)
	if got := get("resources=VCPU:1"); len(got.Requests) != 7 || got.Ranking != nil {
		t.Errorf("without a preference: %+v", got)
	}
	packed := slices.Clone(hosts)
	slices.Reverse(packed)
	whole := get("resources=VCPU:1" + prefer)
	if got := whole.providers(); !slices.Equal(got, packed) || len(whole.Ranking) != 7 || whole.Ranking[6].Marker != "" {
		t.Errorf("packed: %+v", whole)
	}
	at := fmt.Sprint("&limit=3&at=", l.Views.Checkpoint().Sequence, "&resources=VCPU:1", prefer)
	var pages []string
	marker := ""
	for {
		page := get(marker + at)
		pages = append(pages, page.providers()...)
		last := page.Ranking[len(page.Ranking)-1]
		if last.Marker == "" {
			break
		}
		marker = "marker=" + last.Marker
		// The world changes between pages: as of the same commit nothing is different.
		l.Accept(t, commandstest.Allocate(commandstest.NewID(), l.Provider(t, "more-"+last.Marker[30:],
			commands.Inventory{Class: "VCPU", Total: 4}), "VCPU", 1))
	}
	if !slices.Equal(pages, packed) {
		t.Errorf("in pages: %v, not %v", pages, packed)
	}
}
