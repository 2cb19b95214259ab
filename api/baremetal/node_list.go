package baremetal

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

var nodeKeys = map[string]func(*ledger.Node) string{
	"uuid":                 func(n *ledger.Node) string { return n.UUID.String() },
	"name":                 func(n *ledger.Node) string { return n.Name },
	"driver":               func(n *ledger.Node) string { return n.Driver },
	"owner":                func(n *ledger.Node) string { return n.Owner },
	"lessee":               func(n *ledger.Node) string { return n.Lessee },
	"resource_class":       func(n *ledger.Node) string { return n.ResourceClass },
	"provision_state":      func(n *ledger.Node) string { return n.ProvisionState },
	"power_state":          func(n *ledger.Node) string { return n.PowerState },
	"instance_uuid":        func(n *ledger.Node) string { return n.Instance.String() },
	"maintenance":          func(n *ledger.Node) string { return strconv.FormatBool(n.Maintenance) },
	"created_at":           func(n *ledger.Node) string { return sortableTime(n.CreatedAt) },
	"updated_at":           func(n *ledger.Node) string { return sortableTime(n.UpdatedAt) },
	"provision_updated_at": func(n *ledger.Node) string { return sortableTime(n.ProvisionUpdatedAt) },
	defaultSortKey:         func(*ledger.Node) string { return "" },
}

var nodeListParameters = []string{
	"associated", "maintenance", "provision_state", "resource_class", "owner", "lessee", "instance_uuid", "driver",
	"fault",
	"conductor_group", "chassis_uuid", "description_contains", "retired", "conductor", "shard", "sharded", "parent_node",
	"include_children", "detail", "fields", "limit", "marker", "sort_key", "sort_dir",
}

func (r nodes) list() (*response, error) { return r.listAll(false, "") }

func (r nodes) listInDetail() (*response, error) { return r.listAll(true, "") }

func (r nodes) listInChassis() (*response, error) { return r.listAll(len(r.path) > 3, r.ident) }

func (r nodes) listAll(detail bool, chassis string) (*response, error) {
	known := nodeListParameters
	if chassis != "" {
		known = slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == "chassis_uuid" })
	}
	values, err := r.parameters(known...)
	if err != nil {
		return nil, err
	}
	if chassis != "" {
		values = maps.Clone(values)
		values.Set("chassis_uuid", chassis)
	}
	if err := r.known(maps.Keys(values), nodeSince, filterSince); err != nil {
		return nil, err
	}
	asked, err := r.fields(values)
	if err != nil {
		return nil, err
	}
	if values.Has("detail") && !detail {
		if detail, err = boolean(values, "detail"); err != nil {
			return nil, err
		}
	}
	if detail && asked != nil {
		return nil, rest.BadRequest("Can't fetch a subset of fields with 'detail' set")
	}
	if !detail && asked == nil {
		asked = shortNodeFields
	}
	matches, err := r.filter(values)
	if err != nil {
		return nil, err
	}
	path := "/nodes"
	if strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/detail") {
		path = "/nodes/detail"
	}
	return list(r.request, r.all(), values, path, matches, asked)
}

// boolean reads a parameter as Ironic's clients write it: True, False, 1, ...
func boolean(values url.Values, key string) (bool, error) {
	text, err := plainBoolean(key, values.Get(key))
	if err != nil || text == "null" {
		return false, rest.BadRequest("Invalid %s: %s is neither true nor false", key, values.Get(key))
	}
	return text == "true", nil
}

var validFaults = []string{"power failure", "clean failure", "rescue abort failure", "service failure"}

// provisionStates are all states of Ironic, of which Allot's nodes have few: a filter by another one finds nothing.
var provisionStates = []string{
	"active", "adopt failed", "adopting", "available", "clean failed", "clean hold", "clean wait", "cleaning", "deleted",
	"deleting", "deploy failed", "deploy hold", "deploying", "enroll", "error", "inspect failed", "inspect wait",
	"inspecting", "manageable", "rebuild", "rescue", "rescue failed", "rescue wait", "rescuing", "service failed",
	"service hold", "service wait", "servicing", "unrescue failed", "unrescuing", "verifying", "wait call-back",
}

// checkWords refuses filters by what no node can have.
func checkWords(values url.Values) error {
	if fault := values.Get("fault"); values.Has("fault") && !slices.Contains(validFaults, fault) {
		return rest.BadRequest(
			"Unrecognized fault %q is specified, allowed faults are ('%s')", fault, strings.Join(validFaults, "', '"),
		)
	}
	if state := values.Get("provision_state"); values.Has("provision_state") && !slices.Contains(provisionStates, state) {
		return rest.BadRequest("Provision state %q is not valid", state)
	}
	return nil
}

func (r nodes) filter(values url.Values) (func(*ledger.Node) bool, error) {
	var checks []func(*ledger.Node) bool
	switch {
	case r.allows("baremetal:node:list_all", nil):
	case r.allows("baremetal:node:list", nil) && r.Who.Project != "":
		checks = append(checks, func(n *ledger.Node) bool { return n.Owner == r.Who.Project || n.Lessee == r.Who.Project })
	default:
		return nil, forbidden("baremetal:node:list")
	}
	flags, err := flagFilters(values)
	if err != nil {
		return nil, err
	}
	checks = append(append(checks, flags...), textFilters(values)...)
	if err := checkWords(values); err != nil {
		return nil, err
	}
	for _, by := range []func(url.Values) (func(*ledger.Node) bool, error){r.chassisFilter, r.familyFilter} {
		check, err := by(values)
		if err != nil {
			return nil, err
		}
		checks = append(checks, check)
	}
	if shards := values.Get("shard"); values.Has("shard") {
		list := strings.Split(shards, ",")
		checks = append(checks, func(n *ledger.Node) bool { return slices.Contains(list, detailText(n, "shard")) })
	}
	if part := values.Get("description_contains"); part != "" {
		checks = append(checks, func(n *ledger.Node) bool { return strings.Contains(detailText(n, "description"), part) })
	}
	if text := values.Get("instance_uuid"); text != "" {
		id, isUUID := parseUUID(text)
		if !isUUID {
			return nil, rest.BadRequest("Expected UUID for instance_uuid: %s", text)
		}
		checks = append(checks, func(n *ledger.Node) bool { return n.Instance == id })
	}
	return func(n *ledger.Node) bool {
		return !slices.ContainsFunc(checks, func(check func(*ledger.Node) bool) bool { return !check(n) })
	}, nil
}

// flagFilters are the filters with the values true and false.
func flagFilters(values url.Values) (checks []func(*ledger.Node) bool, err error) {
	for key, of := range map[string]func(*ledger.Node) bool{
		"associated":  func(n *ledger.Node) bool { return !n.Instance.IsNil() },
		"maintenance": func(n *ledger.Node) bool { return n.Maintenance },
		"retired":     func(n *ledger.Node) bool { return n.Retired() },
		"sharded":     func(n *ledger.Node) bool { return detailText(n, "shard") != "" },
	} {
		if values.Has(key) {
			want, err := boolean(values, key)
			if err != nil {
				return nil, err
			}
			checks = append(checks, func(n *ledger.Node) bool { return of(n) == want })
		}
	}
	return checks, nil
}

func textFilters(values url.Values) (checks []func(*ledger.Node) bool) {
	for key, of := range map[string]func(*ledger.Node) string{
		"provision_state": nodeKeys["provision_state"], "resource_class": nodeKeys["resource_class"],
		"owner":  nodeKeys["owner"],
		"lessee": nodeKeys["lessee"], "driver": nodeKeys["driver"],
		"fault":           func(*ledger.Node) string { return "" }, // Allot looks for no faults
		"conductor":       func(*ledger.Node) string { return "" }, // no node has a conductor
		"conductor_group": func(n *ledger.Node) string { return detailText(n, "conductor_group") },
	} {
		if values.Has(key) {
			want := values.Get(key)
			checks = append(checks, func(n *ledger.Node) bool { return of(n) == want })
		}
	}
	return checks
}

// chassisFilter lists the nodes in one chassis. A client that may not see chassis
// must not learn which exist: for it, a list of the nodes in a missing chassis is
// empty.
func (r nodes) chassisFilter(values url.Values) (func(*ledger.Node) bool, error) {
	if !values.Has("chassis_uuid") {
		return func(*ledger.Node) bool { return true }, nil
	}
	ident := values.Get("chassis_uuid")
	id, isUUID := parseUUID(ident)
	if !isUUID {
		return nil, rest.BadRequest("Expected UUID for chassis_uuid: %s", ident)
	}
	if r.seesChassis() {
		_, found, err := r.chassisByID(id)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, chassisNotFound(http.StatusNotFound, ident)
		}
	}
	text := id.String()
	return func(n *ledger.Node) bool { return n.Chassis() == text }, nil
}

// familyFilter lists the children of one node or, without include_children, the
// nodes that are no children.
func (r nodes) familyFilter(values url.Values) (func(*ledger.Node) bool, error) {
	if ident := values.Get("parent_node"); values.Has("parent_node") {
		parent, err := r.findNode(ident)
		if err != nil {
			return nil, err
		}
		if parent == nil || !r.allows("baremetal:node:get", nodeTarget(parent)) {
			return nil, nodeNotFound(http.StatusBadRequest, ident)
		}
		id := parent.UUID.String()
		return func(n *ledger.Node) bool { return n.Parent() == id }, nil
	}
	children := false
	if values.Has("include_children") {
		var err error
		if children, err = boolean(values, "include_children"); err != nil {
			return nil, err
		}
	}
	return func(n *ledger.Node) bool { return children || n.Parent() == "" }, nil
}

func detailText(n *ledger.Node, key string) string {
	details, err := n.Details.Object()
	if err != nil {
		return "" // as if the field were missing; showing the node reports the error
	}
	text, _ := details[key].(string)
	return text
}

// shards serves /shards: how many nodes each shard has, the largest shard first.
func (r nodes) shards() (*response, error) {
	if !r.allows("baremetal:shards:get", nil) {
		return nil, forbidden("baremetal:shards:get")
	}
	if _, err := r.parameters(); err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	err := r.View.Nodes(0, func(n *ledger.Node) bool {
		counts[detailText(n, "shard")]++
		return true
	})
	if err != nil {
		return nil, err
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	list := make([]object, len(names))
	for i, name := range names {
		list[i] = object{{"name", cmp.Or(name, "None")}, {"count", counts[name]}} // Ironic calls the lack of a shard so
	}
	return ok(object{{"shards", list}}), nil
}
