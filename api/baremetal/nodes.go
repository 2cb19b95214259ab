package baremetal

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// nodeSince are the fields that came with a microversion. Clients below it
// neither see them nor may name them: not in bodies, patches, lists of fields
// or filters.
var nodeSince = map[string]version{
	"driver_internal_info": 3, "name": nodeNamesSince, "inspection_finished_at": 6, "inspection_started_at": 6, "clean_step": 7,
	"raid_config": 12, "target_raid_config": 12, "network_interface": 20, "resource_class": nodeResourceClass,
	"boot_interface": 31, "console_interface": 31, "deploy_interface": 31, "inspect_interface": 31, "management_interface": 31,
	"power_interface": 31, "raid_interface": 31, "vendor_interface": 31, "storage_interface": 33, "traits": traitsSince,
	"rescue_interface": 38, "bios_interface": 40, "fault": 42, "deploy_step": 44, "conductor_group": nodeConductorGroups,
	"automated_clean": nodeAutomatedClean, "protected": nodeProtectedSince, "protected_reason": nodeProtectedSince,
	"conductor": nodeConductorSince, "owner": nodeOwnerSince, "description": nodeDescription,
	"allocation_uuid": allocationsSince, "retired": nodeRetiredSince, "retired_reason": nodeRetiredSince,
	"lessee": nodeLesseeSince, "network_data": nodeNetworkData, "boot_mode": nodeBootModeSince, "secure_boot": nodeBootModeSince,
	"shard": nodeShardSince, "parent_node": 83, "firmware_interface": 86, "service_step": 87,
}

// filterSince are filters of lists that came with another microversion than a
// field of their name.
var filterSince = map[string]version{
	"provision_state": 9, "driver": 16, "description_contains": nodeDescription, "sharded": nodeShardSince, "include_children": 83,
}

// known refuses names that the client's microversion does not have.
func (r *request) known(names iter.Seq[string], since ...map[string]version) error {
	for name := range names {
		if slices.ContainsFunc(since, func(since map[string]version) bool { return r.version < since[name] }) {
			return notAcceptable()
		}
	}
	return nil
}

// shortNodeFields are those of a list that asks for none.
var shortNodeFields = []string{"uuid", "instance_uuid", "maintenance", "power_state", "provision_state", "name", "links"}

// interfaceNames are those of the fields NAME_interface, in Ironic's order.
var interfaceNames = []string{"bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network", "power", "raid", "rescue", "storage", "vendor"}

// describeNode is a node as clients see it. What only hardware could tell is
// null or empty.
func (r *request) describeNode(n *ledger.Node, fields []string) (object, error) {
	details, err := n.Details.Object()
	if err != nil {
		return nil, err
	}
	id := n.UUID.String()
	path := "/nodes/" + id
	doc := object{
		{"uuid", n.UUID}, {"created_at", timeText(n.CreatedAt)}, {"updated_at", timeText(n.UpdatedAt)},
		{"automated_clean", details["automated_clean"]},
	}
	for _, name := range interfaceNames[:2] {
		doc = append(doc, member{name + "_interface", details[name+"_interface"]})
	}
	doc = append(doc,
		member{"boot_mode", nil}, member{"clean_step", m{}}, member{"conductor_group", valueOr(details["conductor_group"], "")},
		member{"console_enabled", false}, member{"deploy_step", m{}}, member{"description", details["description"]},
	)
	for _, name := range interfaceNames[2:] {
		doc = append(doc, member{name + "_interface", details[name+"_interface"]})
	}
	doc = append(doc, object{
		{"driver", n.Driver}, {"driver_info", n.DriverInfo}, {"driver_internal_info", m{}}, {"extra", n.Extra}, {"fault", nil},
		{"inspection_finished_at", nil}, {"inspection_started_at", nil}, {"instance_info", n.InstanceInfo},
		{"instance_uuid", uuidOrNull(n.Instance)}, {"last_error", nil}, {"lessee", orNull(n.Lessee)},
		{"maintenance", n.Maintenance}, {"maintenance_reason", orNull(n.MaintenanceReason)}, {"name", orNull(n.Name)},
		{"network_data", valueOr(details["network_data"], m{})}, {"owner", orNull(n.Owner)}, {"parent_node", details["parent_node"]}, {"power_state", orNull(n.PowerState)},
		{"properties", n.Properties}, {"protected", n.Protected}, {"protected_reason", details["protected_reason"]},
		{"provision_state", n.ProvisionState}, {"provision_updated_at", timeText(n.ProvisionUpdatedAt)},
		{"raid_config", m{}}, {"reservation", nil}, {"resource_class", orNull(n.ResourceClass)},
		{"retired", details["retired"] == true}, {"retired_reason", details["retired_reason"]}, {"secure_boot", nil},
		{"service_step", m{}}, {"shard", details["shard"]}, {"target_power_state", nil}, {"target_provision_state", nil}, {"target_raid_config", m{}},
		{"traits", orEmpty(n.Traits)}, {"links", r.links(path)}, {"conductor", nil},
		{"allocation_uuid", uuidOrNull(n.Allocation)}, {"chassis_uuid", details["chassis_uuid"]},
		{"ports", r.links(path + "/ports")}, {"states", r.links(path + "/states")},
		{"portgroups", r.links(path + "/portgroups")}, {"volume", r.links(path + "/volume")},
	}...)
	doc = slices.DeleteFunc(doc, func(m member) bool { return r.version < nodeSince[m.key] })
	if r.version < availableSince && n.ProvisionState == ledger.NodeAvailable {
		for i := range doc {
			if doc[i].key == "provision_state" {
				doc[i].value = nil // the state before it had a name
			}
		}
	}
	return doc.only(fields), nil
}

// valueOr is a value, or another one where it is null.
func valueOr(value, other any) any {
	if value == nil {
		return other
	}
	return value
}

// nodeFieldNames are all fields of a node.
var nodeFieldNames = func() []string {
	var names []string
	doc, err := (&request{version: maxVersion}).describeNode(&ledger.Node{}, nil)
	if err != nil {
		panic(err) // a node without details
	}
	for _, m := range doc {
		names = append(names, m.key)
	}
	return names
}()

func (r *request) nodeFields(values url.Values) ([]string, error) {
	asked, err := fields(values, nodeFieldNames)
	for _, name := range asked {
		if r.version < nodeSince[name] {
			return nil, notAcceptable()
		}
	}
	return asked, err
}

func nodeTarget(n *ledger.Node) policy.Target {
	return policy.Target{"node.owner": n.Owner, "node.lessee": n.Lessee}
}

// nodeFor finds the node that a path names, for something that a rule allows.
// A node that the client may not see is not there.
func (r *request) nodeFor(ident, rule string) (*ledger.Node, error) {
	n, err := r.findNode(ident)
	if base, isSuffixed := strings.CutSuffix(ident, ".json"); err == nil && n == nil && isSuffixed && r.version < literalSuffixSince {
		n, err = r.findNode(base)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, nodeNotFound(http.StatusNotFound, ident)
	}
	if !r.allows(rule, nodeTarget(n)) {
		return nil, forbidden(rule)
	}
	return n, nil
}

// nodes serves /nodes.
func (r *request) nodes() (*response, error) {
	return r.methods(map[string]func() (*response, error){
		http.MethodGet: func() (*response, error) { return r.listNodes(false, "") }, http.MethodPost: r.createNode,
	})
}

func (r *request) nodeDetails() (*response, error) {
	return r.methods(map[string]func() (*response, error){
		http.MethodGet: func() (*response, error) { return r.listNodes(true, "") },
	})
}

// node serves /nodes/IDENT.
func (r *request) node(ident string) (*response, error) {
	return r.methods(map[string]func() (*response, error){
		http.MethodGet:    func() (*response, error) { return r.showNode(ident) },
		http.MethodPatch:  func() (*response, error) { return r.updateNode(ident) },
		http.MethodDelete: func() (*response, error) { return r.deleteNode(ident) },
	})
}

func (r *request) createNode() (*response, error) {
	if !r.allows("baremetal:node:create", nil) {
		return nil, forbidden("baremetal:node:create")
	}
	c := commands.CreateNode{}
	body := nodeBody{CreateNode: &c, request: r}
	if _, err := r.body("node", nodeSchema, &body); err != nil {
		return nil, err
	}
	if body.failure != nil {
		return nil, body.failure
	}
	if c.Node.IsNil() {
		c.Node = rest.NewID(r.Request, "node")
	}
	if r.version < enrollSince {
		c.ProvisionState = ledger.NodeAvailable
	}
	outcome, rejection, err := r.submit(&c)
	if err != nil {
		return nil, err
	}
	if rejection != nil && rejection.Facts.Field == "name" {
		return nil, badRequest("Cannot create node with invalid name '%s'", rejection.Facts.Name)
	}
	if rejection != nil {
		return nil, rejected("node", rejection)
	}
	if r.view, err = r.h.Views.ViewAt(outcome.Address.Sequence); err != nil {
		return nil, err
	}
	answer, err := r.nodeAnswer(c.Node)
	if err != nil {
		return nil, err
	}
	answer.status, answer.location = http.StatusCreated, "/v1/nodes/"+c.Node.String()
	return answer, nil
}

// nodeBody reads a node as clients write it: the fields, and a uuid.
type nodeBody struct {
	*commands.CreateNode
	request *request
	failure error // of a body that can be read
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *nodeBody) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if b.failure = b.request.known(maps.Keys(members), nodeSince); b.failure != nil {
		return nil
	}
	for name, value := range members {
		plain, err := b.request.plainField(name, string(value))
		if err != nil {
			b.failure = err
			return nil
		}
		members[name] = json.RawMessage(plain)
	}
	var id struct {
		UUID *ledger.UUID `json:"uuid"`
	}
	text, err := ledger.PlainJSON(members)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return err
	}
	if id.UUID != nil {
		b.Node = *id.UUID
	}
	return json.Unmarshal(text, &b.NodeFields)
}

// plainField is the JSON of a field in the one form that commands take: flags
// are booleans, and a parent is named by its uuid.
func (r *request) plainField(name, text string) (string, error) {
	if slices.Contains(booleanFields, name) {
		plain, err := plainBoolean(name, text)
		if err != nil {
			return "", badRequest("%v", err)
		}
		return plain, nil
	}
	var ident string
	if json.Unmarshal([]byte(text), &ident) != nil || ident == "" {
		return text, nil
	}
	switch name {
	case "chassis_uuid":
		return text, r.checkChassis(ident)
	case "parent_node":
	default:
		return text, nil
	}
	n, err := r.findNode(ident)
	if err != nil {
		return "", err
	}
	if n == nil || !r.allows("baremetal:node:get", nodeTarget(n)) {
		return "", badRequest("Node %s could not be found.", ident)
	}
	return `"` + n.UUID.String() + `"`, nil
}

// plainBoolean is true, false or null for any form that Ironic takes.
func plainBoolean(name, text string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(strings.Trim(text, `"`))) {
	case "null":
		return "null", nil
	case "true", "1", "t", "yes", "y", "on":
		return "true", nil
	case "false", "0", "f", "no", "n", "off":
		return "false", nil
	}
	return "", fmt.Errorf("Invalid %s: Unrecognized value %s, acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'", name, text)
}

// nodeAnswer describes a node of the request's view.
func (r *request) nodeAnswer(id ledger.UUID) (*response, error) {
	n, found, err := r.writtenNode(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, nodeNotFound(http.StatusNotFound, id.String())
	}
	doc, err := r.describeNode(n, nil)
	return ok(doc), err
}

func (r *request) showNode(ident string) (*response, error) {
	values, err := r.parameters("fields")
	if err != nil {
		return nil, err
	}
	asked, err := r.nodeFields(values)
	if err != nil {
		return nil, err
	}
	n, err := r.nodeFor(ident, "baremetal:node:get")
	if err != nil {
		return nil, err
	}
	doc, err := r.describeNode(n, asked)
	return ok(doc), err
}

// patchableNodeFields are named in error texts.
var patchableNodeFields = slices.Sorted(maps.Keys(nodeProperties))

func (r *request) updateNode(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:update")
	if err != nil {
		return nil, err
	}
	ops, err := r.patch("node", nodeValues, patchableNodeFields)
	if err != nil {
		return nil, err
	}
	if err := r.known(func(yield func(string) bool) {
		for _, op := range ops {
			if !yield(op.Field()) {
				return
			}
		}
	}, nodeSince); err != nil {
		return nil, err
	}
	if r.version < unsetChassisSince && n.Chassis() != "" && slices.ContainsFunc(ops, leavesChassis) {
		return nil, notAcceptable()
	}
	_, rejection, err := r.submit(&commands.UpdateNode{Node: n.UUID, Patch: ops})
	if err != nil {
		return nil, err
	}
	if rejection != nil && rejection.Code == commands.CodeInvalid && rejection.Facts.Field == "name" {
		return nil, badRequest("Cannot change name for node %s to '%s'", n.UUID, rejection.Facts.Name)
	}
	if rejection != nil {
		return nil, rejected("node", rejection)
	}
	return r.nodeAnswer(n.UUID)
}

// leavesChassis reports whether an operation takes a node out of its chassis.
func leavesChassis(op commands.PatchOperation) bool {
	return op.Field() == "chassis_uuid" && (op.Op == "remove" || op.Value == "null")
}

func (r *request) deleteNode(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:delete")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.DeleteNode{Node: n.UUID}, noContent())
}

// nodeKeys are what lists of nodes can be sorted by.
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
	"associated", "maintenance", "provision_state", "resource_class", "owner", "lessee", "instance_uuid", "driver", "fault",
	"conductor_group", "chassis_uuid", "description_contains", "retired", "conductor", "shard", "sharded", "parent_node",
	"include_children", "detail", "fields", "limit", "marker", "sort_key", "sort_dir",
}

// listNodes lists nodes, all of them or those in the chassis that the path
// names.
func (r *request) listNodes(detail bool, chassis string) (*response, error) {
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
	asked, err := r.nodeFields(values)
	if err != nil {
		return nil, err
	}
	if values.Has("detail") && !detail {
		if detail, err = boolean(values, "detail"); err != nil {
			return nil, err
		}
	}
	if detail && asked != nil {
		return nil, badRequest("Can't fetch a subset of fields with 'detail' set")
	}
	if !detail && asked == nil {
		asked = shortNodeFields
	}
	matches, err := r.nodeFilter(values)
	if err != nil {
		return nil, err
	}
	l, err := r.listing(values, func(key string) bool { return nodeKeys[key] != nil })
	if err != nil {
		return nil, err
	}
	page, err := r.pageOfNodes(l, matches)
	if err != nil {
		return nil, err
	}
	list := make([]object, len(page))
	for i, n := range page {
		if list[i], err = r.describeNode(n, asked); err != nil {
			return nil, err
		}
	}
	body := object{{"nodes", list}}
	if len(page) == l.limit {
		path := "/nodes"
		if strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/detail") {
			path = "/nodes/detail"
		}
		body = append(body, member{"next", r.next(l, values, path, page[len(page)-1].UUID)})
	}
	return ok(body), nil
}

// boolean reads a parameter as Ironic's clients write it: True, False, 1, ...
func boolean(values url.Values, key string) (bool, error) {
	text, err := plainBoolean(key, values.Get(key))
	if err != nil || text == "null" {
		return false, badRequest("Invalid %s: %s is neither true nor false", key, values.Get(key))
	}
	return text == "true", nil
}

// nodeFilter is what of the list the client asked for and may see.
func (r *request) nodeFilter(values url.Values) (func(*ledger.Node) bool, error) {
	var checks []func(*ledger.Node) bool
	switch {
	case r.allows("baremetal:node:list_all", nil):
	case r.allows("baremetal:node:list", nil) && r.who.Project != "":
		checks = append(checks, func(n *ledger.Node) bool { return n.Owner == r.who.Project || n.Lessee == r.who.Project })
	default:
		return nil, forbidden("baremetal:node:list")
	}
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
	for key, of := range map[string]func(*ledger.Node) string{
		"provision_state": nodeKeys["provision_state"], "resource_class": nodeKeys["resource_class"], "owner": nodeKeys["owner"],
		"lessee": nodeKeys["lessee"], "driver": nodeKeys["driver"],
		"fault":           func(*ledger.Node) string { return "" }, // nobody looks for faults
		"conductor":       func(*ledger.Node) string { return "" }, // and none conducts
		"conductor_group": func(n *ledger.Node) string { return detailText(n, "conductor_group") },
	} {
		if values.Has(key) {
			want := values.Get(key)
			checks = append(checks, func(n *ledger.Node) bool { return of(n) == want })
		}
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
			return nil, badRequest("Expected UUID for instance_uuid: %s", text)
		}
		checks = append(checks, func(n *ledger.Node) bool { return n.Instance == id })
	}
	return func(n *ledger.Node) bool {
		return !slices.ContainsFunc(checks, func(check func(*ledger.Node) bool) bool { return !check(n) })
	}, nil
}

// familyFilter lists the children of one node, or without include_children
// the nodes that are no children.
func (r *request) familyFilter(values url.Values) (func(*ledger.Node) bool, error) {
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
		return "" // as if it were not there; showing the node tells
	}
	text, _ := details[key].(string)
	return text
}

func (r *request) pageOfNodes(l *listing, matches func(*ledger.Node) bool) ([]*ledger.Node, error) {
	return page(l, things[ledger.Node]{
		find: r.nodeByID, each: r.view.Nodes,
		missing: func(ident string) *apiError { return nodeNotFound(http.StatusNotFound, ident) },
		id:      func(n *ledger.Node) ledger.UUID { return n.UUID },
		number:  func(n *ledger.Node) uint64 { return n.Number },
		key:     nodeKeys[l.sortKey],
	}, matches)
}
