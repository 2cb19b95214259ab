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

// text asks a question whose answer is no JSON.
func (q *questions) text(t *testing.T, target string) string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	q.handlers[r.URL.Path].ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestRecordsAreToldInWords: histories, the timeline, the records and a comparison say the same sentence of a
// record, with names, the other party and what was before; also of what is gone.
func TestRecordsAreToldInWords(t *testing.T) {
	l, q := inMemory(t)
	cpu := commands.Inventory{Class: "VCPU", Total: 90}
	from, to := l.Provider(t, "host-007", cpu), l.Provider(t, "host-012", cpu)
	consumer, most := ledgertest.ID(2, 1), int64(5)
	more := int64(70_000)
	move := commandstest.Allocate(consumer, to, "VCPU", 2)
	move.Allocations[0].AnyGeneration = true
	gone := l.Provider(t, "gone")
	who := "consumer " + consumer.String()[:8] + " (project project)"
	for _, row := range []struct {
		command commands.Command
		about   string
		want    string
	}{
		{commandstest.Allocate(consumer, from, "VCPU", 2), "consumer=" + consumer.String(), "allocated 2 VCPU on host-007 for " + who},
		{move, "provider=" + from.String(), "moved " + who + " from host-007 to host-012: 2 VCPU"},
		{&commands.ReleaseConsumer{Consumer: consumer}, "provider=" + to.String(), "released " + who + ": 2 VCPU on host-012"},
		{&commands.RenameProvider{Provider: to, Name: "host\n012"}, "provider=" + to.String(), "renamed provider host-012 to host\n012"},
		{&commands.RemoveProvider{Provider: gone}, "provider=" + gone.String(), "deleted provider gone"},
		{&commands.SetLimit{Project: "p", Class: "VCPU", Most: &most}, "", "limited project p to VCPU: at most 5"},
		{&commands.SetLimit{Project: "p", Class: "VCPU", Most: &more}, "", "limited project p to VCPU: at most 70,000, before 5"},
		{&commands.SetLimit{Project: "p", Class: "VCPU"}, "", "took away the limit of project p to VCPU, before 70,000"},
		{&commands.PlaceProject{Project: "p", Parent: "q"}, "", "put project p below project q"},
		{&commands.PlaceProject{Project: "p", Parent: "r"}, "", "put project p below project r, before below q"},
		{&commands.CreateTrait{Name: "CUSTOM_A"}, "", "created trait CUSTOM_A"},
		{&commands.ReplaceProviderTraits{Provider: to, Traits: []string{"CUSTOM_A"}}, "", "set the traits of host\n012: CUSTOM_A"},
		{&commands.ReplaceProviderTraits{Provider: to}, "", "set the traits of host\n012: removed CUSTOM_A"},
		{
			&commands.UpdateInventory{Provider: to, Inventory: commands.Inventory{Class: "VCPU", Total: 80}}, "",
			"set the inventory of host\n012: 80 VCPU",
		},
	} {
		at := l.Accept(t, row.command)
		var page audit.Timeline
		q.get(t, 200, fmt.Sprintf("/audit/timeline?at=%d&limit=1", at.Sequence), &page)
		told := page.Entries[0]
		if !strings.Contains(told.Text, " "+row.want) || told.Words.String() != told.Text {
			t.Errorf("the timeline tells %q of %s; want %q", told.Text, at, row.want)
		}
		if row.about != "" {
			var history audit.Page
			q.get(t, 200, fmt.Sprintf("/audit/history?at=%d&limit=1&%s", at.Sequence, row.about), &history)
			if history.Entries[0].Text != told.Text {
				t.Errorf("the history of %s tells %q; want %q", row.about, history.Entries[0].Text, told.Text)
			}
		}
		line := q.text(t, fmt.Sprintf("/audit/records?from=%d&format=text", at.Sequence))
		if !strings.HasPrefix(line, at.String()+"  ") || !strings.HasSuffix(line, strings.ReplaceAll(told.Text, "\n", "\ufffd")+"\n") {
			t.Errorf("the records tell %q; want %q", line, told.Text)
		}
		if row.command != move {
			continue
		}
		change := told.Changes[0]
		before, after := fmt.Sprint(change.Before), fmt.Sprint(change.After)
		if len(told.Changes) != 1 || told.EventCount != 2 || !strings.Contains(before, from.String()) ||
			!strings.Contains(after, to.String()) {
			t.Errorf("the timeline tells of the changes %+v", told.Changes)
		}
		var diff audit.Diff
		q.get(t, 200, fmt.Sprintf("/audit/diff?from=%d&to=%d", at.Sequence-1, at.Sequence), &diff)
		if diff.Consumers[0].Text != row.want {
			t.Errorf("the comparison tells %q", diff.Consumers[0].Text)
		}
	}
	if got := q.text(t, "/audit/records?from=4&limit=1&format=json,text&whole_ids=true"); !strings.Contains(got, `"text":"`) {
		t.Error(got)
	}
	q.get(t, 400, "/audit/records?format=xml", nil)
	q.get(t, 400, "/audit/timeline?whole_ids=perhaps", nil)
}

// TestAllEventsAreToldFromReadModels: the read models have all that sentences need of what was before.
func TestAllEventsAreToldFromReadModels(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		log := &memlog.Log{}
		ledgertest.AppendCommits(t, log, history.Commits)
		text := ask(t, commandstest.Start(t, t.TempDir(), log), nil).text(t, "/audit/records?format=text&limit=100")
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
		var holders audit.Holders
		q.get(t, 200, "/audit/holders?"+target, &holders)
		if len(holders.Holders.Holders) != want || (holders.Next != nil) != strings.Contains(target, "limit") {
			t.Errorf("%s: %+v", target, holders)
		}
	}
}

// TestNoBoundIsACount: every answer with a list that stops at a bound says so, and counts more than it lists.
func TestNoBoundIsACount(t *testing.T) {
	l, q := inMemory(t)
	from := l.Views.View().Sequence()
	providers := make([]ledger.UUID, 3)
	for i := range providers {
		providers[i] = l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 90})
		one := commandstest.Allocate(ledgertest.ID(2, byte(i)), providers[0], "VCPU", 1)
		one.Allocations[0].Project = fmt.Sprint("project-", i)
		l.Accept(t, one)
		l.Accept(t, &commands.Reserve{
			Seconds: 3600, Allocations: commandstest.Allocate(ledgertest.ID(3, byte(i)), providers[0], "VCPU", 1).Allocations,
		})
	}
	// The questions whose lists stop at a limit, and what an answer then has.
	bounded := map[string]string{
		"/audit/consumers?": `"next"`, "/audit/holders?provider=" + providers[0].String() + "&": `"next"`,
		"/audit/history?provider=" + providers[0].String() + "&": `"next"`, "/audit/owners?": `"incomplete":true`, "/audit/timeline?": `"next"`,
		"/audit/reservations?": `"incomplete":true`, "/audit/search?q=host&": `"incomplete":true`, "/audit/trees?": `"count":3`,
		"/audit/fleet?": `"trees":3`,
	}
	// Those whose lists stop elsewhere say it with a field of this name, and others are whole.
	others := map[string]string{
		"activity": "incomplete", "commits": "lines", "consumption": "next", "diff": "incomplete", "providers": "incomplete", "tree": "incomplete",
		"why": "incomplete", "rejections": "incomplete", "series": "", "records": "lines", "contents": "lines", "find": "", "names": "", "status": "",
		"digest": "", "checkpoint": "", "what-if": "", "consumption/metrics": "", "proof/consumption": "", "proof/growth": "", "proof/record": "",
		"tiles/checkpoint": "", "tiles/tile/{tile}": "",
	}
	for target, want := range bounded {
		for limit, says := range map[int]bool{1: true, 100: strings.Contains(want, ":3")} {
			if text := q.text(t, fmt.Sprintf("%slimit=%d", target, limit)); strings.Contains(text, want) != says {
				t.Errorf("%s of %d: %s", target, limit, text)
			}
		}
	}
	for _, path := range audit.Paths {
		_, name, _ := strings.Cut(path, "/audit/")
		tested := slices.ContainsFunc(slices.Collect(maps.Keys(bounded)), func(target string) bool {
			return strings.HasPrefix(target, "/audit/"+name+"?")
		})
		if field, known := others[name]; !tested && !known {
			t.Errorf("%s: say where its lists stop, and how the answer tells", path)
		} else if field != "" && field != "lines" && !audit.Says(path, field) {
			t.Errorf("%s has no %s", path, field)
		}
	}
	var diff audit.Diff
	q.get(t, 200, fmt.Sprintf("/audit/diff?from=%d", from), &diff)
	if diff.ConsumerCount != 6 || diff.ProviderCount != 3 || diff.Incomplete || diff.AtLeast {
		t.Errorf("%+v", diff)
	}
}

// TestNamesAreAccepted: where a question takes a uuid it takes a name, and the beginning of a uuid; one that may be
// several is answered with these.
func TestNamesAreAccepted(t *testing.T) {
	l, q := inMemory(t)
	cpu := commands.Inventory{Class: "VCPU", Total: 90}
	host := l.Provider(t, "host-007", cpu)
	consumer := ledgertest.ID(2, 7)
	allocate := commandstest.Allocate(consumer, host, "VCPU", 2)
	allocate.Allocations[0].Project = "0123456789abcdef0123456789abcdef"
	l.Accept(t, allocate)
	metal, driver := "metal", "fake"
	l.Accept(t, &commands.CreateNode{
		Node: ledgertest.ID(5, 1), NodeFields: commands.NodeFields{Name: &metal, Driver: &driver},
	})
	for _, row := range []struct{ question, of, id, name string }{
		{"holders", "provider", host.String(), "host-007"}, {"holders", "provider", host.String(), host.String()[:8]},
		{"history", "provider", host.String(), "host-007"}, {"history", "consumer", consumer.String(), "02000000-0000"},
		{"history", "node", ledgertest.ID(5, 1).String(), "metal"}, {"timeline", "provider", host.String(), "host-007"},
		{"history", "node", ledgertest.ID(5, 1).String(), "0500"}, {"tree", "provider", host.String(), "host-007"},
		{"timeline", "project", allocate.Allocations[0].Project, "01234567"}, {"consumers", "project", allocate.Allocations[0].Project, "01234567"},
		{"owners", "project", allocate.Allocations[0].Project, "01234567"}, {"why", "provider=host-007&consumer", consumer.String(), "02000000"},
	} {
		want := q.text(t, fmt.Sprintf("/audit/%s?%s=%s", row.question, row.of, row.id))
		if got := q.text(t, fmt.Sprintf("/audit/%s?%s=%s", row.question, row.of, row.name)); got != want || !strings.Contains(got, row.id) {
			t.Errorf("%s of %s: %s; want %s", row.question, row.name, got, want)
		}
	}
	other := commandstest.Allocate(ledgertest.ID(2, 8), host, "VCPU", 2)
	other.Allocations[0].Project = "beef-and-more"
	l.Accept(t, other)
	var told audit.Timeline
	if q.get(t, 200, "/audit/timeline?project=beef", &told); len(told.Entries) > 0 { // there is no such project
		t.Errorf("of another project: %+v", told.Entries)
	}
	for query, says := range map[string]string{
		"consumer=02000000": `consumer: "02000000" may be ` + consumer.String() + ", " + ledgertest.ID(2, 8).String() + ": give more of it",
		"provider=nothing":  `provider: "nothing" is not a uuid, and no name or beginning of a uuid of one that exists`,
		"consumer=020":      `consumer: "020" is not a uuid, and no name`,
	} {
		w := httptest.NewRecorder()
		q.handlers["/audit/history"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/audit/history?"+query, nil))
		if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), says) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
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
	var page audit.Timeline
	q.get(t, 200, "/audit/timeline?project=web", &page)
	if len(page.Entries) != 1 || page.Entries[0].Text != "test allocated 2 VCPU on host for consumer 02000000 (project web)" {
		t.Errorf("%+v", page.Entries)
	}
	q.get(t, 400, "/audit/timeline?project=both", nil)
	if names := q.text(t, "/audit/names?ids=project,none"); !strings.Contains(names, `{"project":"web"}`) {
		t.Error(names)
	}
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
		log := &memlog.Log{}
		if kinds[history.Name] == nil {
			continue
		}
		ledgertest.AppendCommits(t, log, history.Commits)
		q := ask(t, commandstest.Start(t, t.TempDir(), log), nil)
		for text, of := range kinds[history.Name] {
			var m audit.Matches
			q.get(t, 200, "/audit/search?q="+url.QueryEscape(text), &m)
			if len(m.Matches) == 0 || m.Matches[0].Of != of {
				t.Errorf("%s: %+v; want a %s", text, m.Matches, of)
			}
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == of })
		}
	}
	if len(missing) > 0 {
		t.Errorf("nothing is found of %v", missing)
	}
}
