package main_test

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/cmd/allot/ask"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
)

// place is where something is shown and found: a page of the console, a command of the command line, and the kind of
// what has a history with it, or what a search finds.
type place struct{ page, command, found string }

// without are the places of events that are about no single thing with a history.
var without = map[string]place{
	"LedgerCreated": {"verification", "status", "record"}, "StandardNamesAdded": {"timeline", "list classes", "class"},
	"TraitCreated": {"subject/trait", "list traits", "trait"}, "TraitDeleted": {"subject/trait", "list traits", "trait"},
	"ClassCreated": {"overview", "list classes", "class"}, "ClassRenamed": {"overview", "list classes", "class"},
	"ClassDeleted": {"overview", "list classes", "class"}, "TermBegan": {"overview", "cluster status", "record"},
	"ConsumptionRootSet": {"consumption", "consumption", "record"}, "ContentsImported": {"timeline", "log", "record"},
	"ProviderGenerationsAdvanced": {"timeline", "log", "record"}, "NodeProvidersSet": {"timeline", "log", "record"},
	"LimitSet": {"limits", "limits show", "project"}, "LimitRemoved": {"limits", "limits history", "project"},
	"AggregateLimitSet":     {"subject/aggregate", "limits list", "aggregate"},
	"AggregateLimitRemoved": {"subject/aggregate", "limits history", "aggregate"},
	"ProjectPlaced":         {"limits", "limits list", "project"},
	"PreferenceSet":         {"preferences", "preferences show", "preference"},
	"PreferenceRemoved":     {"preferences", "preferences show", "preference"},
	"TopologySet":           {"topologies", "topologies show", "topology"},
	"TopologyRemoved":       {"topologies", "topologies list", "topology"},
}

// limitKinds are the places of the kinds of limits, by what a limit has in an answer.
var limitKinds = map[string]place{
	"project_id": {"limits", "limits show", "project"}, "resource_class": {"limits", "limits list", "class"},
	"consumer_type": {"limits", "limits list", "project"}, "aggregate": {"subject/aggregate", "limits history", "aggregate"},
}

// TestEverythingHasItsPlace: every event, command and kind of limit has a page of the console and a command of the
// command line that show it, and is found by a search, or is in the history of what is.
func TestEverythingHasItsPlace(t *testing.T) {
	t.Parallel()
	script := func(name string) string {
		return read(t, "../../api/console/assets/js/"+name)
	}
	keys := func(name, begin string) []string {
		_, rest, _ := strings.Cut(script(name), begin)
		list, _, _ := strings.Cut(rest, "\n\n")
		return regexp.MustCompile(`\w[\w-]*`).FindAllString(list, -1)
	}
	pages := keys("main.js", "const pages = {")
	for _, of := range slices.Concat(keys("pages/subject.js", "const pages = {"), keys("pages/subject.js", "const holding = {")) {
		pages = append(pages, "subject/"+of)
	}
	var shown []string
	parser, err := kong.New(&struct {
		ask.Commands `embed:""`
		Cluster      ask.Cluster `cmd:""`
	}{})
	must(t, err)
	for _, node := range parser.Model.Leaves(false) {
		shown = append(shown, node.Path())
	}
	check := func(what string, at place) {
		if !slices.Contains(pages, at.page) || !slices.Contains(shown, at.command) ||
			!slices.Contains(audit.SearchKinds, at.found) {
			t.Errorf("%s has no place in the console, the command line or the search: %+v", what, at)
		}
	}
	for _, event := range ledgertest.EveryEvent() {
		kind := ledger.KindOf(event)
		at, listed := without[kind]
		subjects := projector.SubjectsOf(event)
		if listed == (len(subjects) > 0) {
			t.Errorf("%s: it has a history or a place of its own: %v, %v", kind, subjects, listed)
		}
		for _, subject := range subjects {
			of, _ := present.SubjectName(subject)
			at = place{"subject/" + of, "history", of}
		}
		check(kind, at)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[present.Limit]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "limit" && name != "used" {
			check("a limit with "+name, limitKinds[name])
		}
	}
	known := slices.AppendSeq(slices.Collect(maps.Keys(commands.Registry)), maps.Keys(commands.Internal))
	slices.Sort(known)
	if got := keys("words.js", "export const commands = ["); !slices.Equal(got, known) {
		t.Errorf("the console filters by the commands %v; there are %v", got, known)
	}
	for _, name := range []string{"timeline", "rejected"} {
		says(t, script("pages/"+name+".js"), "'command'")
	}
}
