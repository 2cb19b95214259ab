package audit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestRecordsAreToldInWords: histories, the timeline, the records and a comparison say the same sentence of a
// record, with names, the other party and what was before; also of what is gone.
func TestRecordsAreToldInWords(t *testing.T) {
	l, q := inMemory(t)
	cpu := commands.Inventory{Class: "VCPU", Total: 90}
	from, to, gone := l.Provider(t, "host-007", cpu), l.Provider(t, "host-012", cpu), l.Provider(t, "gone")
	consumer, most, more := ledgertest.ID(2, 1), int64(5), int64(70_000)
	ofConsumer, ofFrom, ofTo := "consumer="+consumer.String(), "provider="+from.String(), "provider="+to.String()
	cpu.Total = 80
	move := commandstest.Allocate(consumer, to, "VCPU", 2)
	move.Allocations[0].AnyGeneration = true
	who := "consumer " + consumer.String()[:8] + " (project project)"
	for _, row := range []struct {
		command commands.Command
		about   string
		want    string
	}{
		{commandstest.Allocate(consumer, from, "VCPU", 2), ofConsumer, "allocated 2 VCPU on host-007 for " + who},
		{move, ofFrom, "moved " + who + " from host-007 to host-012: 2 VCPU"},
		{&commands.ReleaseConsumer{Consumer: consumer}, ofTo, "released " + who + ": 2 VCPU on host-012"},
		{&commands.RenameProvider{Provider: to, Name: "host\n012"}, ofTo, "renamed provider host-012 to host\n012"},
		{&commands.RemoveProvider{Provider: gone}, "provider=" + gone.String(), "deleted provider gone"},
		{&commands.SetLimit{Project: "p", Class: "VCPU", Most: &most}, "", "limited project p to VCPU: at most 5"},
		{&commands.SetLimit{Project: "p", Class: "VCPU", Most: &more}, "", "limited project p to VCPU: at most 70,000, before 5"},
		{&commands.SetLimit{Project: "p", Class: "VCPU"}, "", "took away the limit of project p to VCPU, before 70,000"},
		{&commands.PlaceProject{Project: "p", Parent: "q"}, "", "put project p below project q"},
		{&commands.PlaceProject{Project: "p", Parent: "r"}, "", "put project p below project r, before below q"},
		{&commands.CreateTrait{Name: "CUSTOM_A"}, "", "created trait CUSTOM_A"},
		{&commands.ReplaceProviderTraits{Provider: to, Traits: []string{"CUSTOM_A"}}, ofTo, "set the traits of host\n012: CUSTOM_A"},
		{&commands.ReplaceProviderTraits{Provider: to}, ofTo, "set the traits of host\n012: removed CUSTOM_A"},
		{&commands.UpdateInventory{Provider: to, Inventory: cpu}, ofTo, "set the inventory of host\n012: 80 VCPU"},
	} {
		at := l.Accept(t, row.command)
		last := told[audit.Timeline](t, q, fmt.Sprintf("/audit/timeline?at=%d&limit=1", at.Sequence)).Entries[0]
		if !strings.Contains(last.Text, " "+row.want) || last.Words.String() != last.Text {
			t.Errorf("the timeline tells %q of %s; want %q", last.Text, at, row.want)
		}
		if row.about != "" {
			target := fmt.Sprintf("/audit/history?at=%d&limit=1&%s", at.Sequence, row.about)
			if told := told[audit.Page](t, q, target).Entries[0].Text; told != last.Text {
				t.Errorf("the history of %s tells %q; want %q", row.about, told, last.Text)
			}
		}
		line := q.text(t, fmt.Sprintf("/audit/records?from=%d&format=text", at.Sequence))
		plain := strings.ReplaceAll(last.Text, "\n", "\ufffd")
		if !strings.HasPrefix(line, at.String()+"  ") || !strings.HasSuffix(line, plain+"\n") {
			t.Errorf("the records tell %q; want %q", line, last.Text)
		}
		if row.command != move {
			continue
		}
		before, after := fmt.Sprint(last.Changes[0].Before), fmt.Sprint(last.Changes[0].After)
		if len(last.Changes) != 1 || last.EventCount != 2 || !strings.Contains(before, from.String()) ||
			!strings.Contains(after, to.String()) {
			t.Errorf("the timeline tells of the changes %+v", last.Changes)
		}
		diff := told[audit.Diff](t, q, fmt.Sprintf("/audit/diff?from=%d&to=%d", at.Sequence-1, at.Sequence))
		if diff.Consumers[0].Text != row.want {
			t.Errorf("the comparison tells %q", diff.Consumers[0].Text)
		}
	}
	if got := q.text(t, "/audit/records?from=4&limit=1&format=json,text&whole_ids=true"); !strings.Contains(got, `"text":"`) {
		t.Error(got)
	}
	q.refused(t, 400, "/audit/records", "?format=xml", "?whole_ids=perhaps")
}

// TestAllEventsAreToldFromReadModels: the read models have all that sentences need of what was before.
func TestAllEventsAreToldFromReadModels(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		text := ofHistory(t, history.Commits).text(t, "/audit/records?format=text&limit=100")
		if lines := strings.Count(text, "\n"); lines < len(history.Commits) || strings.Contains(text, "error: ") {
			t.Errorf("%s: %s", history.Name, text)
		}
	}
}

// TestHoldersOfAHost: who holds something of what is nested in a host is a holder of the host, now and in the past,
// and no page loses one.
func TestHoldersOfAHost(t *testing.T) {
	l, q := inMemory(t)
	cpu := commands.Inventory{Class: "VCPU", Total: 90}
	host, socket, other := l.Provider(t, "host", cpu), l.Provider(t, "socket", cpu), l.Provider(t, "other", cpu)
	node := l.Provider(t, "node", cpu)
	l.Accept(t, &commands.ReparentProvider{Provider: socket, Parent: host})
	l.Accept(t, &commands.ReparentProvider{Provider: node, Parent: socket})
	for i, provider := range []ledger.UUID{host, socket, node, other} {
		l.Accept(t, commandstest.Allocate(ledgertest.ID(2, byte(i)), provider, "VCPU", 1))
	}
	then := l.Accept(t, &commands.ReleaseConsumer{Consumer: ledgertest.ID(2, 2)}).Sequence - 1
	for target, want := range map[string]int{
		"provider=" + host.String(): 1, "tree=true&provider=" + host.String(): 2, "tree=true&provider=" + other.String(): 1,
		fmt.Sprintf("tree=true&at=%d&provider=%s", then, host): 3, fmt.Sprintf("tree=true&at=%d&provider=%s", then, socket): 2,
		fmt.Sprintf("tree=true&limit=1&at=%d&provider=%s", then, host): 1,
	} {
		holders := told[audit.Holders](t, q, "/audit/holders?"+target)
		if len(holders.Holders.Holders) != want || (holders.Next != nil) != strings.Contains(target, "limit") {
			t.Errorf("%s: %+v", target, holders)
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

// TestNamesAreAccepted: where a question takes a uuid it takes a name, and the beginning of a uuid; one that may be
// several is answered with these.
func TestNamesAreAccepted(t *testing.T) {
	l, q := inMemory(t)
	host := l.Provider(t, "host-007", commands.Inventory{Class: "VCPU", Total: 90})
	provider, consumer, another := host.String(), ledgertest.ID(2, 7).String(), ledgertest.ID(2, 8).String()
	const project = "0123456789abcdef0123456789abcdef"
	hold := func(n byte, project string) {
		c := commandstest.Allocate(ledgertest.ID(2, n), host, "VCPU", 2)
		c.Allocations[0].Project = project
		l.Accept(t, c)
	}
	hold(7, project)
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
	hold(8, "beef-and-more")
	if of := told[audit.Timeline](t, q, "/audit/timeline?project=beef").Entries; len(of) > 0 { // there is no such project
		t.Errorf("of another project: %+v", of)
	}
	for query, says := range map[string]string{
		"consumer=02000000": `consumer: "02000000" may be ` + consumer + ", " + another + ": give more of it",
		"provider=nothing":  `provider: "nothing" is not a uuid, and no name or beginning of a uuid of one that exists`,
		"consumer=020":      `consumer: "020" is not a uuid, and no name`,
	} {
		r := httptest.NewRequest(http.MethodGet, "/audit/history?"+query, nil)
		if text := q.do(t, http.StatusBadRequest, r); !strings.HasPrefix(text, says) {
			t.Errorf("%s: %s", query, text)
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

// TestNamesOfProjects: sentences have the names of projects, questions take them, and one that several have is
// answered with their ids.
func TestNamesOfProjects(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 90})
	l.Accept(t, commandstest.Allocate(ledgertest.ID(2, 7), host, "VCPU", 2))
	named := questionsTo(l)
	named.Directory = cloud{"project": "web", "one": "both", "two": "both"}
	q := &questions{l, named.Handlers()}
	web := told[audit.Timeline](t, q, "/audit/timeline?project=web").Entries
	if len(web) != 1 || web[0].Text != "test allocated 2 VCPU on host for consumer 02000000 (project web)" {
		t.Errorf("%+v", web)
	}
	q.refused(t, 400, "/audit/timeline?project=", "both")
	if names := q.text(t, "/audit/names?ids=project,none"); !strings.Contains(names, `{"project":"web"}`) {
		t.Error(names)
	}
	q.refused(t, 400, "/audit/names", "", "?ids="+strings.Repeat("one,", 500)+"one")
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

// TestCountersAreTold: a provider's history has its counters and draws, and a what-if what would be left.
func TestCountersAreTold(t *testing.T) {
	t.Parallel()
	l, q := inMemory(t)
	card, slice := l.Provider(t, "card"), l.Provider(t, "slice", commands.Inventory{Class: "VGPU", Total: 7})
	draws := []ledger.DrawRecord{{Class: "VGPU", Counter: "SLICE", Amount: 2}}
	l.Accept(t, &commands.ReparentProvider{Provider: slice, Parent: card})
	l.Accept(t, &commands.ReplaceProviderCounters{Provider: card, Counters: []ledger.Counter{{Name: "SLICE", Total: 7}}})
	l.Accept(t, &commands.ReplaceProviderCounters{Provider: slice, Draws: draws})
	for id, has := range map[ledger.UUID]string{
		card: `"counters":[{"name":"SLICE","total":7}]`, slice: `"draws":[{"class":"VGPU","counter":"SLICE","amount":2}]`,
	} {
		if text := q.text(t, "/audit/history?provider="+id.String()); !strings.Contains(text, has) {
			t.Errorf("no %s in %s", has, text)
		}
	}
	would := q.whatIf(t, 200, fmt.Sprintf(`{"steps":[{"command":"AllocateForConsumers","body":{"allocations":[{
		"consumer":%q,"project":"p","user":"u","generation":null,"resources":[{"provider":%q,"class":"VGPU","amount":3}]}]}}],
		"questions":[{"query":"Provider","body":{"provider":%q}}]}`, commandstest.NewID(), slice, card))
	if !strings.Contains(would, `"left":1`) {
		t.Errorf("not 1 slice would be left: %s", would)
	}
}
