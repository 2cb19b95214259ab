// Package policy decides who may do what, by the rules of oslo.policy that
// OpenStack's operators write: Placement's own rules, and those with which a YAML
// file replaces them.
package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Identity is the sender of a request, as authentication found out.
type Identity struct {
	User    string // id
	Project string // id; empty for tokens without a project
	Roles   []string
	// System marks a token with system scope, and Domain a token with the scope
	// of a domain; see InScope for their effect.
	System, Domain bool
	// Believed marks a sender who is only known by the request's own word.
	Believed bool
}

// InScope reports whether a rule applies to tokens of the identity's scope, as
// upstream with enforce_scope. Rules of Placement and Allot apply to projects
// only, rules of Ironic to projects and the whole system, and none to a domain.
func InScope(rule string, id Identity) bool {
	return !id.Domain && (!id.System || strings.HasPrefix(rule, "baremetal:"))
}

// Client returns a name for the client whose share of bounded resources the
// request uses: the user and project or, without authentication, the host of the
// connection.
func (id Identity) Client(address string) string {
	if id.Believed || id.User == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		return "address " + host
	}
	return "user " + id.User + " of project " + id.Project
}

// Has reports whether the identity has a role. Case does not matter.
func (id Identity) Has(role string) bool {
	return slices.ContainsFunc(id.Roles, func(r string) bool { return strings.EqualFold(r, role) })
}

// Target holds attributes of the object of a request, which rules can compare.
type Target map[string]string

// TargetAttributes are the attributes that rules can name as %(NAME)s.
var TargetAttributes = []string{"project_id", "allocation.owner", "node.owner", "node.lessee"}

// Rules decide requests. They never change.
type Rules struct{ checks map[string]check }

// rule is a default: its text, and a deprecated alternative that upstream still
// accepts unless enforce_new_defaults is set.
type rule struct{ text, deprecated string }

const (
	adminOrService = "rule:admin_or_service_api"
	legacy         = "role:admin"
)

// ironic are the rules of the bare metal API, in Ironic's own words. Members of a
// project may do what their roles allow with what the project owns or leases.
var ironic = map[string]string{
	"baremetal:allocation:create":            "role:admin or role:service",
	"baremetal:allocation:create_restricted": "role:member",
	"baremetal:allocation:list_all":          "role:admin or role:service or (role:reader and system_scope:all)",
	"baremetal:allocation:list":              "role:reader",
	"baremetal:allocation:get":               "role:admin or role:service or (role:reader and system_scope:all) or (role:reader and project_id:%(allocation.owner)s)",
	"baremetal:allocation:update":            "role:admin or role:service or (role:member and project_id:%(allocation.owner)s)",
	"baremetal:allocation:delete":            "role:admin or role:service or (role:member and project_id:%(allocation.owner)s)",
	"baremetal:chassis:get":                  "role:admin or role:service or (role:reader and system_scope:all)",
	"baremetal:chassis:create":               "role:admin or role:service",
	"baremetal:chassis:update":               "role:admin or role:service or (role:member and system_scope:all)",
	"baremetal:chassis:delete":               "role:admin or role:service",
	"baremetal:shards:get":                   "role:admin or role:service or (role:reader and system_scope:all)",
	"baremetal:node:list_all":                "role:admin or role:service or (role:reader and system_scope:all)",
	"baremetal:node:list":                    "role:reader",
	"baremetal:node:get":                     "role:admin or role:service or (role:reader and system_scope:all) or (role:reader and project_id:%(node.owner)s) or (role:reader and project_id:%(node.lessee)s)",
	"baremetal:node:create":                  "role:admin or role:service",
	"baremetal:node:update":                  "role:admin or role:service or (role:manager and project_id:%(node.owner)s)",
	"baremetal:node:delete":                  "role:admin or role:service",
	"baremetal:node:traits:set":              "role:admin or role:service or (role:manager and project_id:%(node.owner)s)",
	"baremetal:node:set_maintenance":         "role:admin or role:service or (role:manager and project_id:%(node.owner)s)",
	"baremetal:node:set_provision_state":     "role:admin or role:service or (role:member and project_id:%(node.owner)s) or (role:member and project_id:%(node.lessee)s)",
	"baremetal:node:set_power_state":         "role:admin or role:service or (role:member and project_id:%(node.owner)s) or (role:member and project_id:%(node.lessee)s)",
}

// defaults are upstream's rules, under their names, and Allot's own.
var defaults = func() map[string]rule {
	rules := map[string]rule{
		"admin_api":            {text: "role:admin"},
		"service_api":          {text: "role:service", deprecated: legacy},
		"admin_or_service_api": {text: "role:admin or role:service", deprecated: legacy},
		"project_reader_api":   {text: "role:reader and project_id:%(project_id)s"},
		"admin_or_project_reader_or_service_api": {
			text: "role:admin or rule:project_reader_api or role:service", deprecated: legacy,
		},
		"placement:usages":           {text: "rule:admin_or_project_reader_or_service_api"},
		"placement:reshaper:reshape": {text: "rule:service_api"},
		"allot:audit":                {text: "rule:admin_api"},
		"allot:claims:create":        {text: adminOrService},
		"allot:limits:list":          {text: adminOrService},
		"allot:load_in_bulk":         {text: adminOrService},
		"allot:limits:update":        {text: "rule:admin_api"},
		"allot:counters:list":        {text: adminOrService},
		"allot:counters:update":      {text: adminOrService},
		"allot:preferences:list":     {text: adminOrService},
		"allot:preferences:update":   {text: "rule:admin_api"},
		"allot:topologies:list":      {text: adminOrService},
		"allot:topologies:update":    {text: "rule:admin_api"},
		"allot:cluster":              {text: "rule:admin_api"},
	}
	for name, text := range ironic {
		rules[name] = rule{text: text}
	}
	for area, actions := range map[string][]string{
		"resource_providers":             {"list", "create", "show", "update", "delete", "usages"},
		"resource_classes":               {"list", "create", "show", "update", "delete"},
		"resource_providers:inventories": {"list", "create", "show", "update", "delete"},
		"resource_providers:aggregates":  {"list", "update"},
		"resource_providers:traits":      {"list", "update", "delete"},
		"resource_providers:allocations": {"list"},
		"traits":                         {"list", "show", "update", "delete"},
		"allocations":                    {"manage", "update", "list", "delete"},
		"allocation_candidates":          {"list"},
	} {
		for _, action := range actions {
			rules["placement:"+area+":"+action] = rule{text: adminOrService}
		}
	}
	return rules
}()

// Names lists the names of all rules.
func Names() []string {
	var names []string
	for name := range defaults {
		if strings.Contains(name, ":") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ErrRules is in every error about a policy file.
var ErrRules = errors.New("policy")

// Load returns the rules: the defaults, overridden by those of a YAML file in
// oslo.policy's form, which may be empty. If newDefaults is set, it leaves out
// what upstream has deprecated. A text that it cannot read, a rule that Placement
// does not have, and a reference to a missing rule are errors, so that no typing
// error permits anything.
func Load(overrides []byte, newDefaults bool) (*Rules, error) {
	given, err := readFile(overrides)
	if err != nil {
		return nil, err
	}
	r := &Rules{checks: make(map[string]check)}
	for name, d := range defaults {
		text := d.text
		if d.deprecated != "" && !newDefaults {
			text = "(" + text + ") or " + d.deprecated
		}
		if _, overridden := given[name]; overridden {
			continue
		}
		if r.checks[name], err = parse(text); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrRules, name, err)
		}
	}
	for name, text := range given {
		if _, known := defaults[name]; !known && strings.Contains(name, ":") {
			return nil, fmt.Errorf("%w: there is no rule %q", ErrRules, name)
		}
		if r.checks[name], err = parse(text); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrRules, name, err)
		}
	}
	return r, r.checkReferences()
}

func readFile(data []byte) (map[string]string, error) {
	var given map[string]string
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: the file is not a map of rule names to rules: %w", ErrRules, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: the file has more than one document", ErrRules)
	}
	return given, nil
}

// checkReferences finds references to missing rules, and rules that lead to
// themselves.
func (r *Rules) checkReferences() error {
	state := make(map[string]int) // 1: under way, 2: good
	var visit func(name string) error
	visit = func(name string) error {
		c, known := r.checks[name]
		switch {
		case !known:
			return fmt.Errorf("%w: there is no rule %q", ErrRules, name)
		case state[name] == 1:
			return fmt.Errorf("%w: rule %q leads to itself", ErrRules, name)
		case state[name] == 2:
			return nil
		}
		state[name] = 1
		for _, other := range c.references() {
			if err := visit(other); err != nil {
				return err
			}
		}
		state[name] = 2
		return nil
	}
	for name := range r.checks {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// Allows reports whether a rule permits a request. A missing rule permits
// nothing, and no rule permits anything to a token of another scope.
func (r *Rules) Allows(name string, id Identity, target Target) bool {
	return InScope(name, id) && r.holds(name, id, target)
}

// SeesLimits reports of projects whether an identity may see their limits, and
// what is used of them.
func (r *Rules) SeesLimits(id Identity) func(project string) bool {
	return func(project string) bool {
		return project == id.Project || r.Allows("allot:limits:list", id, Target{"project_id": project})
	}
}

// LoadsInBulk reports whether an identity may add to the log without a bound.
func (r *Rules) LoadsInBulk(id Identity) bool { return r.Allows("allot:load_in_bulk", id, Target{}) }

// holds evaluates the rule alone, as a rule that refers to it does.
func (r *Rules) holds(name string, id Identity, target Target) bool {
	c, known := r.checks[name]
	return known && c.allows(r, id, target)
}

// Default returns the text of a rule's default in Placement.
func Default(name string) string { return defaults[name].text }
