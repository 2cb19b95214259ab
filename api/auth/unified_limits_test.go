package auth_test

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/auth/keystonetest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// followed is a ledger whose limits follow a small Keystone.
type followed struct {
	*commandstest.Ledger
	keystone *keystonetest.Server
	status   processes.LimitStatus
	log      ledgertest.Output
}

const registered = `{"registered_limits":[{"resource_name":"class:VCPU","default_limit":20,"service_id":"nova"},
	{"resource_name":"servers","default_limit":10},{"resource_name":"class:MEMORY_MB","default_limit":-1},
	{"resource_name":"class:CUSTOM_NONE","default_limit":3},{"resource_name":"server_key_pairs","default_limit":100}],
	"links":{"next":null}}`

// answers are those of Keystone, by path, with some changes.
func answers(changes ...string) map[string]string {
	all := map[string]string{
		"limits/model": model("strict_two_level"), "registered_limits": registered, "limits": `{"limits":[],"links":{"next":null}}`,
		"projects": `{"projects":[{"id":"p","parent_id":"top","domain_id":"d"},{"id":"top","parent_id":"d","domain_id":"d"},
			{"id":"other","parent_id":"default","domain_id":"default"}],"links":{"next":null}}`,
	}
	for i := 0; i < len(changes); i += 2 {
		all[changes[i]] = changes[i+1]
	}
	return all
}

func model(name string) string { return `{"model":{"name":"` + name + `","description":""}}` }

func follow(t *testing.T) *followed {
	t.Helper()
	f := &followed{Ledger: commandstest.Start(t, t.TempDir(), &memlog.Log{}), keystone: keystonetest.Start(t, users...)}
	f.keystone.Answer(answers())
	follower := processes.StartLimitFollower(processes.LimitFollowerConfig{
		Source: &auth.UnifiedLimits{Keystone: open(t, f.keystone, nil)}, Submit: f.Writer, Views: f.Views,
		Every: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&f.log, nil)), Status: &f.status,
	})
	t.Cleanup(follower.Stop)
	return f
}

// answer has Keystone say something else, to all that the next round asks: a round in which
// some answers are old and others new could follow what neither says.
func (f *followed) answer(t *testing.T, changes ...string) {
	t.Helper()
	f.keystone.Break(true)
	f.keystone.Answer(answers(changes...))
	before := f.status.Failures()
	ledgertest.WaitFor(t, "a round that fails", func() bool { return f.status.Failures() > before })
	f.keystone.Break(false)
}

// has is what the ledger has, in words.
func (f *followed) has(t *testing.T) (lines []string) {
	t.Helper()
	view := f.Views.View()
	classes, err := view.Classes()
	if err == nil {
		err = view.Limits(func(l ledger.Limit) bool {
			of, most := "class "+classes.Name(l.Class), fmt.Sprint(l.Most)
			if l.Type != "" {
				of = "type " + l.Type
			}
			if l.Most == math.MaxInt64 {
				most = "any"
			}
			lines = append(lines, fmt.Sprintf("%q %s: %s", l.Project, of, most))
			return true
		})
	}
	if err == nil {
		err = view.ProjectParents(func(p ledger.ProjectParent) bool {
			lines = append(lines, p.Project+" below "+p.Parent)
			return true
		})
	}
	ledgertest.OK(t, err)
	slices.Sort(lines)
	return lines
}

func (f *followed) comes(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	ledgertest.WaitFor(t, "the limits to follow", func() bool { return slices.Equal(f.has(t), want) })
}

// TestFollowLimits: the ledger has the limits and the tree that Keystone has, and
// those only, whatever was there before.
func TestFollowLimits(t *testing.T) {
	t.Parallel()
	f := follow(t)
	vcpu, servers, tree := `"" class VCPU: 20`, `"" type INSTANCE: 10`, "p below top"
	f.comes(t, vcpu, servers, tree)
	if !strings.Contains(f.log.String(), "CUSTOM_NONE") {
		t.Error("nothing is said of a class that the ledger does not have")
	}
	f.Accept(t, &commands.SetLimit{Project: "p", Class: "DISK_GB", Most: new(int64(9))})
	f.Accept(t, &commands.SetLimit{Project: "p", Type: "MIGRATION", Most: new(int64(9))})
	f.comes(t, vcpu, servers, tree, `"p" type MIGRATION: 9`)
	f.Accept(t, &commands.SetLimit{Project: "p", Type: "MIGRATION"})

	f.answer(t, "limits", `{"limits":[
		{"resource_name":"class:VCPU","resource_limit":5,"project_id":"p","domain_id":null},
		{"resource_name":"servers","resource_limit":-1,"project_id":"p","domain_id":null},
		{"resource_name":"class:VCPU","resource_limit":50,"project_id":null,"domain_id":"d"}]}`)
	f.comes(t, vcpu, servers, tree, "top below d", `"p" class VCPU: 5`, `"p" type INSTANCE: any`,
		`"d" class VCPU: 50`, `"d" type INSTANCE: any`)

	// The tree turns around.
	f.answer(t, "projects", `{"projects":[{"id":"top","parent_id":"p","domain_id":"d"},{"id":"p","parent_id":"d","domain_id":"d"}]}`)
	f.comes(t, vcpu, servers, "top below p")
	f.answer(t, "limits/model", model("flat"))
	f.comes(t, vcpu, servers)
	f.answer(t, "limits/model", model("flat"), "registered_limits", `{"registered_limits":[]}`)
	f.comes(t)
	commandstest.CheckReplay(t, f.Ledger)
}

// TestLimitsThatCannotBeFollowed: nothing changes while Keystone is away, or says
// what cannot be, and that is counted and logged.
func TestLimitsThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	f := follow(t)
	want := []string{`"" class VCPU: 20`, `"" type INSTANCE: 10`, "p below top"}
	f.comes(t, want...)
	const changed = `{"registered_limits":[{"resource_name":"class:VCPU","default_limit":7}]}`
	deep := `{"projects":[{"id":"0","parent_id":"d","domain_id":"d"}`
	for i := range 20 {
		deep += fmt.Sprintf(`,{"id":"%d","parent_id":"%d","domain_id":"d"}`, i+1, i)
	}
	of := func(limit string) string { return `{"limits":[` + limit + `]}` }
	some := func(limit string) string {
		return `{"registered_limits":[{"resource_name":"class:VCPU"` + limit + `}]}`
	}
	const ofP = `{"resource_name":"class:VCPU","resource_limit":1,"project_id":"p"}`
	for name, row := range map[string]struct{ path, answer, says string }{
		"a cycle":           {"projects", `{"projects":[{"id":"a","parent_id":"b"},{"id":"b","parent_id":"a"}]}`, "below itself"},
		"too deep":          {"projects", deep + "]}", "below itself, or more than 16"},
		"a parent unlisted": {"projects", `{"projects":[{"id":"a","parent_id":"b"}]}`, "does not list"},
		"no projects":       {"projects", `{"projects":[]}`, "no projects"},
		"a project twice":   {"projects", `{"projects":[{"id":"a","domain_id":"d"},{"id":"a","domain_id":"d"}]}`, "twice"},
		"cut short":         {"limits", `{"limits":[],"truncated":true}`, "list_limit"},
		"another page":      {"limits", `{"limits":[],"links":{"next":"x"}}`, "list_limit"},
		"no list":           {"limits", `{"limits":{}}`, "cannot unmarshal"},
		"null":              {"limits", `{"limits":null}`, "has no limits"},
		"something else":    {"limits", `{}`, "has no limits"},
		"not registered":    {"limits", of(`{"resource_name":"servers","resource_limit":1,"project_id":"p"}`), "no registered limit"},
		"of no project":     {"limits", of(`{"resource_name":"class:VCPU","resource_limit":1}`), "no project"},
		"two of a project":  {"limits", of(ofP + "," + ofP), "two limits"},
		"no model":          {"limits/model", model(""), "limit model"},
		"another model":     {"limits/model", model("spherical"), "limit model"},
		"a text":            {"registered_limits", some(`,"default_limit":"7"`), "cannot unmarshal"},
		"says not what":     {"registered_limits", some(""), "not how much"},
		"below -1":          {"registered_limits", some(`,"default_limit":-2`), "is none"},
		"two registered":    {"registered_limits", strings.Replace(registered, "servers", "class:VCPU", 1), "two registered"},
	} {
		f.answer(t, "registered_limits", changed, row.path, row.answer)
		before := f.status.Failures()
		ledgertest.WaitFor(t, name+" not to be followed", func() bool { return f.status.Failures() > before+1 })
		if got := f.has(t); !slices.Equal(got, want) || !strings.Contains(f.log.String(), row.says) {
			t.Errorf("%s: %v, and the log says %q: %s", name, got, row.says, f.log.String())
		}
		f.answer(t)
		since := f.status.Followed()
		ledgertest.WaitFor(t, "following after "+name, func() bool { return f.status.Followed() > since })
		f.comes(t, want...)
	}
	f.keystone.Break(true)
	before := f.status.Failures()
	ledgertest.WaitFor(t, "rounds that fail without a Keystone", func() bool { return f.status.Failures() > before+2 })
	if got := f.has(t); !slices.Equal(got, want) {
		t.Errorf("while Keystone is away: %v", got)
	}
	f.keystone.Break(false)
	f.answer(t, "limits/model", model("flat"), "registered_limits", changed)
	f.comes(t, `"" class VCPU: 7`)
}

// TestEndlessErrors: of what Keystone says about an error a bounded part is read, and told.
func TestEndlessErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		for err := error(nil); err == nil; _, err = io.WriteString(w, strings.Repeat("no", 32<<10)) {
		}
	}))
	t.Cleanup(server.Close)
	k := open(t, &keystonetest.Server{URL: server.URL + "/v3"}, nil)
	_, err := (&auth.UnifiedLimits{Keystone: k}).UnifiedLimits(t.Context())
	if err == nil || !strings.Contains(err.Error(), "403") || len(err.Error()) > 4<<10 {
		t.Errorf("%.300v", err)
	}
}
