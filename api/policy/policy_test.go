package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/ledger/ledgertest"
)

var (
	admin   = policy.Identity{User: "a", Project: "p", Roles: []string{"Admin"}}
	service = policy.Identity{User: "s", Project: "p", Roles: []string{"service"}}
	reader  = policy.Identity{User: "r", Project: "p", Roles: []string{"reader", "member"}}
)

func load(t *testing.T, text string, newDefaults bool) *policy.Rules {
	t.Helper()
	rules, err := policy.Load([]byte(text), newDefaults)
	ledgertest.OK(t, err)
	return rules
}

func TestDefaults(t *testing.T) {
	mine, other := policy.Target{"project_id": "p"}, policy.Target{"project_id": "q"}
	for _, c := range []struct {
		rule     string
		id       policy.Identity
		target   policy.Target
		old, new bool // with the old defaults, and the new ones
	}{
		{"placement:resource_providers:list", admin, nil, true, true},
		{"placement:resource_providers:list", service, nil, true, true},
		{"placement:resource_providers:list", reader, nil, false, false},
		{"placement:reshaper:reshape", admin, nil, true, false},
		{"placement:reshaper:reshape", service, nil, true, true},
		{"placement:usages", reader, mine, true, true},
		{"placement:usages", reader, other, false, false},
		{"placement:usages", reader, policy.Target{}, false, false},
		{"placement:usages", admin, other, true, true},
		{"allot:audit", admin, nil, true, true},
		{"allot:audit", service, nil, false, false},
		{"no such rule", admin, nil, false, false},
	} {
		was, is := load(t, "", false).Allows(c.rule, c.id, c.target), load(t, "", true).Allows(c.rule, c.id, c.target)
		if was != c.old || is != c.new {
			t.Errorf("%s by %v of %v: %v, and %v by new defaults", c.rule, c.id, c.target, was, is)
		}
	}
}

// TestScope: tokens of another scope than the rule's may do nothing, whatever
// their roles, even where a rule permits everybody.
func TestScope(t *testing.T) {
	t.Parallel()
	var open strings.Builder
	for _, name := range policy.Names() {
		open.WriteString(name + ": '@'\n")
	}
	roles := []string{"admin", "service", "manager", "member", "reader"}
	for _, text := range []string{"", open.String()} {
		rules := load(t, text, false)
		for _, name := range policy.Names() {
			if !strings.Contains(name, ":") {
				continue // only for other rules to refer to
			}
			target := policy.Target{"project_id": "p", "node.owner": "p", "node.lessee": "p", "allocation.owner": "p"}
			for _, project := range []string{"", "p"} {
				if rules.Allows(name, policy.Identity{User: "d", Project: project, Roles: roles, Domain: true}, target) {
					t.Errorf("%s allows a token of a domain", name)
				}
			}
			system := policy.Identity{User: "s", Roles: roles, System: true}
			if got, want := rules.Allows(name, system, target), strings.HasPrefix(name, "baremetal:"); got != want {
				t.Errorf("%s by a token of the system: %v", name, got)
			}
		}
	}
}

func TestSyntax(t *testing.T) {
	target := policy.Target{"project_id": "p"}
	for text, want := range map[string]bool{
		``: true, `@`: true, `!`: false, `role:reader`: true, `role:READER`: true, `role:admin`: false,
		`role:admin or role:reader`: true, `role:admin and role:reader`: false, `not role:admin`: true,
		`not role:admin and role:reader`: true, `role:admin or role:reader and not role:reader`: false,
		`(role:admin or role:reader) and role:member`: true, `not (role:admin or role:reader)`: false,
		`project_id:%(project_id)s`: true, `user_id:%(project_id)s`: false, `user_id:r`: true, `project_id:q`: false,
		`role:admin or (role:reader and project_id:%(project_id)s)`: true, `system_scope:all`: false,
		`rule:admin_api`: false, `rule:admin_api OR rule:mine`: true, `((((@))))`: true,
	} {
		rules := load(t, "mine: role:member\nplacement:traits:list: '"+text+"'\n", false)
		if got := rules.Allows("placement:traits:list", reader, target); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestRefused: a rule that cannot be read is an error, never a silent permission.
func TestRefused(t *testing.T) {
	rule := func(text string) string { return "placement:traits:list: '" + text + "'" }
	for _, text := range []string{
		rule("role:"), rule("role"), rule("admin"), rule("role:admin or"), rule("or role:admin"), rule("(role:admin"),
		rule("role:admin)"), rule("role:admin role:reader"), rule("http://policy.example/x"), rule("rule:nobody_wrote_this"),
		rule("rule:placement:traits:list"), rule("is_admin:True"), rule("project_id:%(tenant)s"), rule("not"), rule("()"),
		rule("project_id:%(project_id)"), rule("role:%(project_id)s"), rule(strings.Repeat("(", 1000) + "@" + strings.Repeat(")", 1000)), "a: rule:b\nb: rule:a\n",
		"placement:traits:lisst: '@'", "placement:traits:list: [[role:admin]]", "- a list", "a: '@'\n---\nb: '@'", "\x00",
		"a: '@'\na: '!'",
	} {
		if _, err := policy.Load([]byte(text), false); !errors.Is(err, policy.ErrRules) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("placement:traits:list: not (role:a or @) and project_id:%(project_id)s"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := policy.Load(data, true)
		if (rules == nil) != (err != nil) && err == nil {
			t.Errorf("%v, %v", rules, err)
		}
		if err == nil {
			rules.Allows("placement:traits:list", reader, policy.Target{})
		}
	})
}
