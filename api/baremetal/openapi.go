package baremetal

import (
	"net/http"
	"slices"

	"github.com/allot-project/allot/api/openapi"
)

// Prefix is the path of the API in its description.
const Prefix = "/baremetal"

// Describe adds the API, at its newest version, to an OpenAPI document.
func Describe(d *openapi.Document) error {
	const tag = "Bare metal"
	d.Tag(tag, "Ironic's allocations, nodes and chassis, versions "+minVersion.String()+" to "+maxVersion.String()+".")
	if err := d.Failure("BaremetalFailure", "What went wrong, in Ironic's form", openapi.JSON, openapi.Object{
		"type": "object", "required": []any{"error_message"},
		"properties": openapi.Object{"error_message": openapi.Object{
			"description": "an object with faultstring and faultcode, or that object as text at older versions",
		}},
	}); err != nil {
		return err
	}
	for _, op := range operations(newDescribed(d)) {
		op.Path, op.Tag, op.Failure = Prefix+"/v1"+op.Path, tag, "BaremetalFailure"
		op.Parameters = append([]openapi.Parameter{{
			Name: versionHeader, In: "header", Means: "1.1 if it is not sent",
			Schema: openapi.Object{"type": "string", "pattern": `^(latest|1\.\d+)$`},
		}}, op.Parameters...)
		if op.Common = openapi.Reads; op.Method != http.MethodGet {
			op.Common = openapi.Writes
		}
		if err := d.Add(op); err != nil {
			return err
		}
	}
	return nil
}

// described are the schemas that operations refer to.
type described struct {
	node, nodes, allocation, allocations, chassis, chassisList, patch, allocationBody, nodeBody openapi.Object
}

func newDescribed(d *openapi.Document) described {
	var (
		text   = openapi.Object{"type": "string"}
		maybe  = openapi.Object{"type": []any{"string", "null"}}
		id     = openapi.Object{"type": "string", "format": "uuid"}
		texts  = openapi.Object{"type": "array", "items": text}
		object = openapi.Object{"type": "object"}
		flag   = openapi.Object{"type": "boolean"}
		open   = func(properties openapi.Object, required ...any) openapi.Object {
			return openapi.Object{"type": "object", "properties": properties, "required": append([]any{}, required...)}
		}
		list = func(name string, of openapi.Object) openapi.Object {
			return open(openapi.Object{name: openapi.Object{"type": "array", "items": of}, "next": text}, name)
		}
	)
	node := d.Schema("BaremetalNode", open(openapi.Object{
		"uuid": id, "name": maybe, "driver": text, "resource_class": maybe, "provision_state": maybe, "power_state": maybe,
		"maintenance": flag, "maintenance_reason": maybe, "instance_uuid": maybe, "allocation_uuid": maybe, "traits": texts,
		"owner": maybe, "lessee": maybe, "retired": flag, "protected": flag, "properties": object, "extra": object,
		"chassis_uuid": maybe, "parent_node": maybe, "shard": maybe,
	}, "uuid"))
	allocation := d.Schema("BaremetalAllocation", open(openapi.Object{
		"uuid": id, "name": maybe, "state": openapi.Object{"enum": []any{"allocating", "active", "error"}},
		"node_uuid":      maybe,
		"resource_class": maybe, "traits": texts, "candidate_nodes": texts, "owner": maybe, "last_error": maybe,
		"extra": object,
	}, "uuid", "state"))
	chassis := d.Schema(
		"BaremetalChassis",
		open(openapi.Object{"uuid": id, "description": maybe, "extra": object}, "uuid"),
	)
	return described{
		node: node, nodes: list("nodes", node), allocation: allocation, allocations: list("allocations", allocation),
		chassis: chassis, chassisList: list("chassis", chassis),
		patch: openapi.Object{"type": "array", "items": open(openapi.Object{
			"op": openapi.Object{
				"enum": []any{"add", "replace", "remove", "move", "copy", "test"},
			}, "path": text, "from": text,
			"value": openapi.Object{},
		}, "op", "path")},
		allocationBody: open(openapi.Object{
			"name": text, "uuid": id, "resource_class": text, "traits": texts, "candidate_nodes": texts, "owner": text,
			"node":  text,
			"extra": object,
		}),
		nodeBody: open(openapi.Object{
			"driver": text, "name": text, "uuid": id, "resource_class": text, "properties": object, "extra": object,
			"owner":        text,
			"chassis_uuid": id, "parent_node": text, "shard": text, "conductor_group": text, "description": text,
		}, "driver"),
	}
}

// filters describes the parameters of a list.
func filters(names ...string) (list []openapi.Parameter) {
	means := map[string]string{
		"fields": "which fields to show, separated by commas", "detail": "true: all fields", "limit": "how many at most",
		"marker": "the last one of the page before", "sort_key": "the field to sort by", "sort_dir": "asc or desc",
	}
	for _, name := range names {
		said := means[name]
		if said == "" {
			said = "only those with this " + name
		}
		list = append(list, openapi.Parameter{Name: name, In: "query", Means: said})
	}
	return list
}

// operations are all operations below /v1. A test compares them with the API's
// answers.
func operations(s described) []openapi.Operation {
	target := func(example string) (openapi.Object, openapi.Object) {
		return openapi.Object{
			"type": "object", "properties": openapi.Object{"target": openapi.Object{"type": "string"}},
			"required": []any{"target"},
		}, openapi.Object{"target": example}
	}
	provision, provisionExample := target("provide")
	power, powerExample := target("power on")
	traits := openapi.Object{
		"type": "object", "required": []any{"traits"},
		"properties": openapi.Object{
			"traits": openapi.Object{"type": "array", "items": openapi.Object{"type": "string"}},
		},
	}
	states := openapi.Object{"type": "object", "properties": openapi.Object{
		"provision_state": openapi.Object{"type": []any{"string", "null"}},
		"power_state":     openapi.Object{"type": []any{"string", "null"}},
	}}
	shards := openapi.Object{"type": "object", "properties": openapi.Object{
		"shards": openapi.Object{"type": "array", "items": openapi.Object{"type": "object", "properties": openapi.Object{
			"name": openapi.Object{"type": "string"}, "count": openapi.Object{"type": "integer"},
		}}},
	}}
	reason := openapi.Object{
		"type": "object", "properties": openapi.Object{"reason": openapi.Object{"type": "string"}},
	}
	patched := func(path string, value any) []any {
		return []any{openapi.Object{"op": "replace", "path": path, "value": value}}
	}
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete
	return slices.Concat([]openapi.Operation{
		{Method: get, Path: "/allocations", ID: "listNodeAllocations", Summary: "List node allocations",
			Parameters: filters(allocationListParameters...), Answer: s.allocations},
		{Method: post, Path: "/allocations", ID: "createNodeAllocation", Summary: "Ask for a whole node", Status: 201,
			Body: s.allocationBody, Example: openapi.Object{"name": "mine", "resource_class": "baremetal"},
			Answer: s.allocation},
		{Method: get, Path: "/allocations/{allocation}", ID: "showNodeAllocation", Summary: "Show a node allocation",
			Answer: s.allocation},
		{Method: patch, Path: "/allocations/{allocation}", ID: "updateNodeAllocation",
			Summary: "Change a node allocation's name and extra", Body: s.patch, Example: patched("/name", "yours"),
			Answer: s.allocation},
		{
			Method:  del,
			Path:    "/allocations/{allocation}",
			ID:      "deleteNodeAllocation",
			Summary: "Give a node back",
			Status:  204,
		},
		{
			Method:     get,
			Path:       "/nodes",
			ID:         "listNodes",
			Summary:    "List nodes",
			Parameters: filters(nodeListParameters...),
			Answer:     s.nodes,
		},
		{Method: post, Path: "/nodes", ID: "createNode", Summary: "Enroll a node", Status: 201, Body: s.nodeBody,
			Example: openapi.Object{
				"driver":         "ipmi",
				"name":           "metal-1",
				"resource_class": "baremetal",
			}, Answer: s.node},
		{Method: get, Path: "/nodes/detail", ID: "listNodesInDetail", Summary: "List nodes with all their fields",
			Parameters: filters(nodeListParameters...), Answer: s.nodes},
		{Method: get, Path: "/nodes/{node}", ID: "showNode", Summary: "Show a node", Answer: s.node},
		{Method: patch, Path: "/nodes/{node}", ID: "updateNode", Summary: "Change a node", Body: s.patch,
			Example: patched("/owner", "p"), Answer: s.node},
		{Method: del, Path: "/nodes/{node}", ID: "deleteNode", Summary: "Delete a node", Status: 204},
		{
			Method:  get,
			Path:    "/nodes/{node}/allocation",
			ID:      "showAllocationOfNode",
			Summary: "Show the allocation of a node",
			Answer:  s.allocation,
		},
		{Method: del, Path: "/nodes/{node}/allocation", ID: "deleteAllocationOfNode",
			Summary: "Give a node back, by the node", Status: 204},
		{
			Method:  get,
			Path:    "/nodes/{node}/traits",
			ID:      "listNodeTraits",
			Summary: "List a node's traits",
			Answer:  traits,
		},
		{
			Method:  put,
			Path:    "/nodes/{node}/traits",
			ID:      "replaceNodeTraits",
			Summary: "Replace a node's traits",
			Status:  204,
			Body:    traits,
			Example: openapi.Object{"traits": []any{"CUSTOM_GPU"}},
		},
		{
			Method:  del,
			Path:    "/nodes/{node}/traits",
			ID:      "clearNodeTraits",
			Summary: "Remove all traits of a node",
			Status:  204,
		},
		{
			Method:  put,
			Path:    "/nodes/{node}/traits/{trait}",
			ID:      "addNodeTrait",
			Summary: "Add a trait to a node",
			Status:  204,
		},
		{Method: del, Path: "/nodes/{node}/traits/{trait}", ID: "removeNodeTrait", Summary: "Remove a trait of a node",
			Status: 204},
		{
			Method:  put,
			Path:    "/nodes/{node}/maintenance",
			ID:      "setNodeMaintenance",
			Summary: "Put a node into maintenance",
			Status:  202,
			Body:    reason,
			Example: openapi.Object{"reason": "a disk is replaced"},
		},
		{
			Method:  del,
			Path:    "/nodes/{node}/maintenance",
			ID:      "unsetNodeMaintenance",
			Summary: "Take a node out of maintenance",
			Status:  202,
		},
		{
			Method:  get,
			Path:    "/nodes/{node}/states",
			ID:      "showNodeStates",
			Summary: "Show a node's states",
			Answer:  states,
		},
		{Method: put, Path: "/nodes/{node}/states/provision", ID: "setNodeProvisionState",
			Summary: "Apply a verb to a node's provision state", Status: 202, Body: provision, Example: provisionExample},
		{Method: put, Path: "/nodes/{node}/states/power", ID: "setNodePowerState", Summary: "Set a node's power state",
			Status: 202, Body: power, Example: powerExample},
		{Method: get, Path: "/shards", ID: "listShards", Summary: "Count the nodes of each shard", Answer: shards},
	}, chassisOperations(s, patched))
}

func chassisOperations(s described, patched func(string, any) []any) []openapi.Operation {
	body := openapi.Object{"type": "object", "properties": openapi.Object{
		"uuid": openapi.Object{"type": "string", "format": "uuid"}, "description": openapi.Object{"type": "string"},
		"extra": openapi.Object{"type": "object"},
	}}
	return []openapi.Operation{
		{
			Method:     http.MethodGet,
			Path:       "/chassis",
			ID:         "listChassis",
			Summary:    "List chassis",
			Parameters: filters(chassisListParameters...),
			Answer:     s.chassisList,
		},
		{
			Method:  http.MethodPost,
			Path:    "/chassis",
			ID:      "createChassis",
			Summary: "Create a chassis",
			Status:  201,
			Body:    body,
			Example: openapi.Object{"description": "rack 7"},
			Answer:  s.chassis,
		},
		{Method: http.MethodGet, Path: "/chassis/detail", ID: "listChassisInDetail",
			Summary: "List chassis with all their fields", Parameters: filters(chassisListParameters...),
			Answer: s.chassisList},
		{
			Method:  http.MethodGet,
			Path:    "/chassis/{chassis}",
			ID:      "showChassis",
			Summary: "Show a chassis",
			Answer:  s.chassis,
		},
		{
			Method:  http.MethodPatch,
			Path:    "/chassis/{chassis}",
			ID:      "updateChassis",
			Summary: "Change a chassis",
			Body:    s.patch,
			Example: patched("/description", "rack 8"),
			Answer:  s.chassis,
		},
		{Method: http.MethodDelete, Path: "/chassis/{chassis}", ID: "deleteChassis", Summary: "Delete an empty chassis",
			Status: 204},
		{
			Method:     http.MethodGet,
			Path:       "/chassis/{chassis}/nodes",
			ID:         "listNodesOfChassis",
			Summary:    "List a chassis' nodes",
			Parameters: filters(nodeListParameters...),
			Answer:     s.nodes,
		},
		{Method: http.MethodGet, Path: "/chassis/{chassis}/nodes/detail", ID: "listNodesOfChassisInDetail",
			Summary: "List a chassis' nodes with all their fields", Parameters: filters(nodeListParameters...),
			Answer: s.nodes},
	}
}
