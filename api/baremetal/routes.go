package baremetal

import (
	"net/http"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/rest"
)

// route is what a method does at a path below /v1, whose parameters are in braces. Without an id it is not described:
// it only refuses, in Ironic's words.
type route struct {
	method, path string
	answer       func(*request) (*response, error)

	id, summary string
	described   openapi.Operation // the rest of its description
}

const (
	get   = http.MethodGet
	post  = http.MethodPost
	put   = http.MethodPut
	patch = http.MethodPatch
	del   = http.MethodDelete
)

// about makes a method of a resource's type one of requests.
func about[T ~struct{ *request }](method func(T) (*response, error)) func(*request) (*response, error) {
	return func(r *request) (*response, error) { return method(T{r}) }
}

// routes are all routes. A path is that of the first one that it matches.
var routes = []route{
	{get, "/allocations", about(allocations.list), "listNodeAllocations", "List node allocations", openapi.Operation{
		Parameters: filters(allocationListParameters...), Answer: listed("allocations", "BaremetalAllocation"),
	}},
	{post, "/allocations", about(allocations.create), "createNodeAllocation", "Ask for a whole node", openapi.Operation{
		Body: allocationSchema.Source(), Example: openapi.Object{"name": "mine", "resource_class": "baremetal"},
		Answer: component("BaremetalAllocation"),
	}},
	{patch, "/allocations", missingIdent, "", "", openapi.Operation{}},
	{del, "/allocations", missingIdent, "", "", openapi.Operation{}},
	{get, "/allocations/{allocation}", about(func(r allocations) (*response, error) { return r.show(r.find) }),
		"showNodeAllocation", "Show a node allocation", openapi.Operation{Answer: component("BaremetalAllocation")}},
	{patch, "/allocations/{allocation}", about(allocations.update), "updateNodeAllocation",
		"Change a node allocation's name and extra", patched("/name", "yours", "BaremetalAllocation")},
	{del, "/allocations/{allocation}", about(func(r allocations) (*response, error) { return r.release(r.find) }),
		"deleteNodeAllocation", "Give a node back", openapi.Operation{}},
	{post, "/allocations/{allocation}", func(*request) (*response, error) {
		return nil, methodNotAllowed("DELETE, GET, PATCH")
	}, "", "", openapi.Operation{}},

	{get, "/nodes", about(nodes.list), "listNodes", "List nodes", describedNodes},
	{post, "/nodes", about(nodes.create), "createNode", "Enroll a node", openapi.Operation{
		Body:    nodeSchema.Source(),
		Example: openapi.Object{"driver": "ipmi", "name": "metal-1", "resource_class": "baremetal"},
		Answer:  component("BaremetalNode"),
	}},
	{get, "/nodes/detail", about(nodes.listInDetail), "listNodesInDetail",
		"List nodes with all their fields", describedNodes},
	{get, "/nodes/{node}", about(nodes.show), "showNode", "Show a node",
		openapi.Operation{Answer: component("BaremetalNode")}},
	{patch, "/nodes/{node}", about(nodes.update), "updateNode", "Change a node", patched("/owner", "p", "BaremetalNode")},
	{del, "/nodes/{node}", about(nodes.delete), "deleteNode", "Delete a node", openapi.Operation{}},
	{get, "/nodes/{node}/allocation", about(func(r allocations) (*response, error) {
		return r.show(r.ofNode(http.StatusBadRequest))
	}), "showAllocationOfNode", "Show the allocation of a node",
		openapi.Operation{Answer: component("BaremetalAllocation")}},
	{del, "/nodes/{node}/allocation", about(func(r allocations) (*response, error) {
		return r.release(r.ofNode(http.StatusNotFound))
	}), "deleteAllocationOfNode", "Give a node back, by the node", openapi.Operation{}},
	{get, "/nodes/{node}/traits", about(nodes.showTraits), "listNodeTraits", "List a node's traits",
		openapi.Operation{Answer: describedTraits}},
	{put, "/nodes/{node}/traits", about(nodes.replaceTraits), "replaceNodeTraits", "Replace a node's traits",
		openapi.Operation{Body: traitsSchema.Source(), Example: openapi.Object{"traits": []any{"CUSTOM_GPU"}}}},
	{del, "/nodes/{node}/traits", about(nodes.clearTraits), "clearNodeTraits", "Remove all traits of a node",
		openapi.Operation{}},
	{put, "/nodes/{node}/traits/{trait}", about(nodes.addTrait), "addNodeTrait", "Add a trait to a node",
		openapi.Operation{}},
	{del, "/nodes/{node}/traits/{trait}", about(nodes.removeTrait), "removeNodeTrait", "Remove a trait of a node",
		openapi.Operation{}},
	{put, "/nodes/{node}/maintenance", about(nodes.setMaintenance), "setNodeMaintenance", "Put a node into maintenance",
		openapi.Operation{
			Status: http.StatusAccepted, Body: maintenanceSchema.Source(),
			Example: openapi.Object{"reason": "a disk is replaced"},
		}},
	{del, "/nodes/{node}/maintenance", about(nodes.unsetMaintenance), "unsetNodeMaintenance",
		"Take a node out of maintenance", openapi.Operation{Status: http.StatusAccepted}},
	{get, "/nodes/{node}/states", about(nodes.showStates), "showNodeStates", "Show a node's states",
		openapi.Operation{Answer: describedStates}},
	{put, "/nodes/{node}/states/provision", about(nodes.setProvisionState), "setNodeProvisionState",
		"Apply a verb to a node's provision state", verb("provide")},
	{put, "/nodes/{node}/states/power", about(nodes.setPowerState), "setNodePowerState", "Set a node's power state",
		verb("power on")},

	{get, "/chassis", about(chassis.list), "listChassis", "List chassis", describedChassisList},
	{post, "/chassis", about(chassis.create), "createChassis", "Create a chassis", openapi.Operation{
		Body: chassisSchema.Source(), Example: openapi.Object{"description": "rack 7"}, Answer: component("BaremetalChassis"),
	}},
	{get, "/chassis/detail", about(chassis.listInDetail), "listChassisInDetail", "List chassis with all their fields",
		describedChassisList},
	{get, "/chassis/{chassis}", about(chassis.show), "showChassis", "Show a chassis",
		openapi.Operation{Answer: component("BaremetalChassis")}},
	{patch, "/chassis/{chassis}", about(chassis.update), "updateChassis", "Change a chassis",
		patched("/description", "rack 8", "BaremetalChassis")},
	{del, "/chassis/{chassis}", about(chassis.delete), "deleteChassis", "Delete an empty chassis", openapi.Operation{}},
	{get, "/chassis/{chassis}/nodes", about(nodes.listInChassis), "listNodesOfChassis",
		"List a chassis' nodes", describedNodes},
	{get, "/chassis/{chassis}/nodes/detail", about(nodes.listInChassis), "listNodesOfChassisInDetail",
		"List a chassis' nodes with all their fields", describedNodes},

	{get, "/shards", about(nodes.shards), "listShards", "Count the nodes of each shard",
		openapi.Operation{Answer: describedShards}},
}

// Paths are all paths below /v1 that the package serves, with their parameters in braces.
var Paths = func() (paths []string) {
	for _, one := range routes {
		paths = append(paths, one.path)
	}
	return slices.Compact(paths)
}()

// matches reports whether a path, in its decoded segments, is one of the route's.
func (one route) matches(path []string) bool {
	left := one.path[1:]
	for i, given := range path {
		want, below, more := strings.Cut(left, "/")
		if want != given && want[0] != '{' || more != (i+1 < len(path)) {
			return false
		}
		left = below
	}
	return true
}

// route answers a request by its path and its method; other methods get a 405.
func (r *request) route() (*response, error) {
	if failure := r.tooOld(); failure != nil {
		return nil, failure
	}
	i := slices.IndexFunc(routes, func(one route) bool { return one.matches(r.path) })
	if i < 0 {
		return nil, r.nothing()
	}
	path := routes[i].path
	r.Pattern = Prefix + "/v1" + path
	var allow []string
	for _, one := range routes[i:] {
		switch {
		case one.path != path:
		case one.method == r.Method:
			return one.answer(r)
		default:
			allow = append(allow, one.method)
		}
	}
	slices.Sort(allow)
	return nil, methodNotAllowed(strings.Join(allow, ", "))
}

// isOfNode reports whether the path is that of a part of a node, or below it.
func (r *request) isOfNode(part string) bool {
	return r.path[0] == "nodes" && len(r.path) > 2 && r.path[2] == part
}

// tooOld hides resources from clients whose microversion does not have them.
func (r *request) tooOld() *rest.Failure {
	switch {
	case r.path[0] == "allocations" && len(r.path) <= 2:
		return allocations{r}.checkVersion()
	case r.isOfNode("allocation") && r.version < allocationsSince:
		return rest.NotFound("The API version does not allow allocations")
	case r.isOfNode("traits") && len(r.path) <= 4 && r.version < traitsSince:
		return nodes{r}.traitsTooOld()
	case r.path[0] == "shards" && len(r.path) == 1 && r.version < nodeShardSince:
		return rest.NotFound("The API version does not allow shards")
	}
	return nil
}

func (r *request) nothing() *rest.Failure {
	switch {
	case r.isOfNode("allocation"):
		return methodNotAllowed("DELETE, GET")
	case r.path[0] == "nodes":
		return rest.NotFound(
			"There is no %s of nodes here: this ledger keeps nodes and allocations, and contacts no hardware.",
			strings.Join(r.path[2:], "/"),
		)
	case r.path[0] == "chassis":
		return rest.NotFound("There is nothing here: of a chassis this ledger keeps the nodes that are in it.")
	}
	return rest.NotFound(
		"There is no %s here: this ledger keeps nodes, chassis and allocations, and contacts no hardware.",
		strings.Join(r.path, "/"),
	)
}
