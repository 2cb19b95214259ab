package baremetal

import (
	"net/http"

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
	for name, schema := range components {
		d.Schema(name, schema)
	}
	for _, one := range routes {
		if one.id == "" {
			continue
		}
		op := one.described
		op.Method, op.Path, op.ID, op.Summary = one.method, Prefix+"/v1"+one.path, one.id, one.summary
		op.Tag, op.Failure = tag, "BaremetalFailure"
		op.Parameters = append([]openapi.Parameter{{
			Name: versionHeader, In: "header", Means: "1.1 if it is not sent",
			Schema: openapi.Object{"type": "string", "pattern": `^(latest|1\.\d+)$`},
		}}, op.Parameters...)
		if op.Common = openapi.Reads; op.Method != http.MethodGet {
			op.Common = openapi.Writes
		}
		switch {
		case op.Method == http.MethodPost:
			op.Status = http.StatusCreated
		case op.Answer == nil && op.Status == 0:
			op.Status = http.StatusNoContent
		}
		if err := d.Add(op); err != nil {
			return err
		}
	}
	return nil
}

// Schemas of which others are made.
var (
	describedText   = openapi.Object{"type": "string"}
	describedMaybe  = openapi.Object{"type": []any{"string", "null"}}
	describedID     = openapi.Object{"type": "string", "format": "uuid"}
	describedTexts  = openapi.Object{"type": "array", "items": describedText}
	describedObject = openapi.Object{"type": "object"}
	describedFlag   = openapi.Object{"type": "boolean"}
)

// open is the schema of an object that may have other members, too.
func open(properties openapi.Object, required ...any) openapi.Object {
	return openapi.Object{"type": "object", "properties": properties, "required": append([]any{}, required...)}
}

var components = map[string]openapi.Object{
	"BaremetalNode": open(openapi.Object{
		"uuid": describedID, "name": describedMaybe, "driver": describedText, "resource_class": describedMaybe,
		"provision_state": describedMaybe, "power_state": describedMaybe, "maintenance": describedFlag,
		"maintenance_reason": describedMaybe, "instance_uuid": describedMaybe, "allocation_uuid": describedMaybe,
		"traits": describedTexts, "owner": describedMaybe, "lessee": describedMaybe, "retired": describedFlag,
		"protected": describedFlag, "properties": describedObject, "extra": describedObject,
		"chassis_uuid": describedMaybe, "parent_node": describedMaybe, "shard": describedMaybe,
	}, "uuid"),
	"BaremetalAllocation": open(openapi.Object{
		"uuid": describedID, "name": describedMaybe, "state": openapi.Object{"enum": []any{"allocating", "active", "error"}},
		"node_uuid": describedMaybe, "resource_class": describedMaybe, "traits": describedTexts,
		"candidate_nodes": describedTexts, "owner": describedMaybe, "last_error": describedMaybe, "extra": describedObject,
	}, "uuid", "state"),
	"BaremetalChassis": open(openapi.Object{
		"uuid": describedID, "description": describedMaybe, "extra": describedObject,
	}, "uuid"),
}

func component(name string) openapi.Object {
	return openapi.Object{"$ref": "#/components/schemas/" + name}
}

// listed is the schema of a page of a list of one of the components.
func listed(name, of string) openapi.Object {
	page := openapi.Object{name: openapi.Object{"type": "array", "items": component(of)}, "next": describedText}
	return open(page, name)
}

// Answers of single routes, and what several lists have in common.
var (
	describedTraits = open(openapi.Object{"traits": describedTexts}, "traits")
	describedStates = open(openapi.Object{"provision_state": describedMaybe, "power_state": describedMaybe})
	describedShards = open(openapi.Object{"shards": openapi.Object{"type": "array", "items": open(openapi.Object{
		"name": describedText, "count": openapi.Object{"type": "integer"},
	})}})
	describedNodes = openapi.Operation{
		Parameters: filters(nodeListParameters...), Answer: listed("nodes", "BaremetalNode"),
	}
	describedChassisList = openapi.Operation{
		Parameters: filters(chassisListParameters...), Answer: listed("chassis", "BaremetalChassis"),
	}
)

// patched describes a JSON Patch of one of the components, such as one that replaces a value.
func patched(path string, value any, of string) openapi.Operation {
	return openapi.Operation{
		Body:    patchSchema.Source(),
		Example: []any{openapi.Object{"op": "replace", "path": path, "value": value}}, Answer: component(of),
	}
}

func verb(example string) openapi.Operation {
	return openapi.Operation{
		Status: http.StatusAccepted, Body: targetSchema.Source(), Example: openapi.Object{"target": example},
	}
}

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
