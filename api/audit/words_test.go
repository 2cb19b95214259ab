package audit_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestAllEventsAreToldFromReadModels: the read models have all that sentences need of what was before.
func TestAllEventsAreToldFromReadModels(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		text := ofHistory(t, history.Commits).text(t, "/audit/records?format=text&limit=100")
		if lines := strings.Count(text, "\n"); lines < len(history.Commits) || strings.Contains(text, "error: ") {
			t.Errorf("%s: %s", history.Name, text)
		}
	}
}

// TestNoBoundIsACount: every answer with a list that stops at a bound says so, and counts more than it lists.
func TestNoBoundIsACount(t *testing.T) {
	l, q := inMemory(t)
	from := l.Views.View().Sequence()
	providers := l.Providers(t, 3, commands.Inventory{Class: "VCPU", Total: 90})
	for i := range 3 {
		l.Accept(t, holding(fmt.Sprint("project-", i), providers[0], 1))
		l.Accept(t, &commands.Reserve{Seconds: 3600, Allocations: holding("project", providers[0], 1).Allocations})
	}
	// The questions whose lists stop at a limit, and what an answer then has.
	provider := "?provider=" + providers[0].String() + "&"
	bounded := map[string][2]string{
		"consumers": {"?", `"next"`}, "holders": {provider, `"next"`}, "history": {provider, `"next"`}, "timeline": {"?", `"next"`},
		"owners": {"?", `"incomplete":true`}, "reservations": {"?", `"incomplete":true`},
		"search": {"?q=host&", `"incomplete":true`}, "trees": {"?", `"count":3`}, "fleet": {"?", `"trees":3`},
	}
	// Those whose lists stop elsewhere say it with a field of this name, and others are whole.
	others := map[string]string{
		"activity": "incomplete", "commits": "lines", "consumption": "next", "diff": "incomplete", "providers": "incomplete", "tree": "incomplete",
		"why": "incomplete", "rejections": "incomplete", "series": "", "records": "lines", "contents": "lines", "find": "", "names": "", "status": "",
		"digest": "", "checkpoint": "", "what-if": "", "consumption/metrics": "", "proof/consumption": "", "proof/growth": "", "proof/record": "",
		"tiles/checkpoint": "", "tiles/tile/{tile}": "",
	}
	for name, asked := range bounded {
		for limit, says := range map[int]bool{1: true, 100: strings.Contains(asked[1], ":3")} {
			text := q.text(t, fmt.Sprintf("/audit/%s%slimit=%d", name, asked[0], limit))
			if strings.Contains(text, asked[1]) != says {
				t.Errorf("%s of %d: %s", name, limit, text)
			}
		}
	}
	for _, path := range audit.Paths {
		_, name, _ := strings.Cut(path, "/audit/")
		_, tested := bounded[name]
		if field, known := others[name]; !tested && !known {
			t.Errorf("%s: say where its lists stop, and how the answer tells", path)
		} else if field != "" && field != "lines" && !audit.Says(path, field) {
			t.Errorf("%s has no %s", path, field)
		}
	}
	diff := told[audit.Diff](t, q, fmt.Sprintf("/audit/diff?from=%d", from))
	if diff.ConsumerCount != 6 || diff.ProviderCount != 3 || diff.Incomplete || diff.AtLeast {
		t.Errorf("%+v", diff)
	}
}

// TestNamesAreAccepted: where a question takes a uuid it takes a name, and the beginning of a uuid.
func TestNamesAreAccepted(t *testing.T) {
	l, q := inMemory(t)
	host := l.Provider(t, "host-007", commands.Inventory{Class: "VCPU", Total: 90})
	provider, consumer := host.String(), ledgertest.ID(2, 7).String()
	const project = "0123456789abcdef0123456789abcdef"
	held := commandstest.Allocate(ledgertest.ID(2, 7), host, "VCPU", 2)
	held.Allocations[0].Project = project
	l.Accept(t, held)
	metal, driver, node := "metal", "fake", ledgertest.ID(5, 1)
	l.Accept(t, &commands.CreateNode{Node: node, NodeFields: commands.NodeFields{Name: &metal, Driver: &driver}})
	for _, row := range []struct{ question, id, name string }{
		{"holders?provider=", provider, "host-007"}, {"holders?provider=", provider, provider[:8]},
		{"history?provider=", provider, "host-007"}, {"history?consumer=", consumer, "02000000-0000"},
		{"history?node=", node.String(), "metal"}, {"timeline?provider=", provider, "host-007"},
		{"history?node=", node.String(), "0500"}, {"tree?provider=", provider, "host-007"},
		{"timeline?project=", project, "01234567"}, {"consumers?project=", project, "01234567"},
		{"owners?project=", project, "01234567"}, {"why?provider=host-007&consumer=", consumer, "02000000"},
	} {
		want := q.text(t, "/audit/"+row.question+row.id)
		if got := q.text(t, "/audit/"+row.question+row.name); got != want || !strings.Contains(got, row.id) {
			t.Errorf("%s%s: %s; want %s", row.question, row.name, got, want)
		}
	}
}

// cloud is a directory of two projects with one name, and another.
type cloud map[string]string

func (c cloud) Called(_, id string) string { return c[id] }

func (c cloud) Named(of, name string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(c)) {
		if c[id] == name && of == "project" {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestSearchFindsEveryKind: what an event names is found: each kind of thing, by its name, uuid or address.
func TestSearchFindsEveryKind(t *testing.T) {
	kinds := map[string]map[string]string{
		"topologies": {
			"fabric": "topology", "b1": "aggregate", "CUSTOM_GOLD": "trait", "CUSTOM_STEEL": "class", "2.0": "record", "p": "project",
			"u": "user", "node \u2603": "provider", ledgertest.ID(2, 1).String(): "consumer",
		},
		"preferences": {"b": "preference"}, "chassis": {"rack 2": "chassis", ledgertest.ID(5, 9).String(): "node"},
		"waiting": {"a3": "node_allocation", "admin": "actor"},
	}
	missing := slices.Clone(audit.SearchKinds)
	for _, history := range ledgertest.Histories(t) {
		if kinds[history.Name] == nil {
			continue
		}
		q := ofHistory(t, history.Commits)
		for text, of := range kinds[history.Name] {
			found := told[audit.Matches](t, q, "/audit/search?q="+url.QueryEscape(text)).Matches
			if len(found) == 0 || found[0].Of != of {
				t.Errorf("%s: %+v; want a %s", text, found, of)
			}
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == of })
		}
	}
	if len(missing) > 0 {
		t.Errorf("nothing is found of %v", missing)
	}
}
