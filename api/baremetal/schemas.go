package baremetal

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/schema"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

type m = map[string]any

var (
	nullableText    = m{"type": []any{"string", "null"}}
	nullableShort   = m{"type": []any{"string", "null"}, "maxLength": ledger.MaxNodeClassRunes}
	nullableName    = m{"type": []any{"string", "null"}, "maxLength": ledger.MaxNodeNameBytes}
	nullableObject  = m{"type": []any{"object", "null"}}
	nullableBoolean = m{"type": []any{"boolean", "null"}}
	nullableTexts   = m{"type": []any{"array", "null"}, "items": m{"type": "string"}}
)

var allocationProperties = m{
	"candidate_nodes": nullableTexts, "extra": nullableObject, "name": nullableText, "owner": nullableText,
	"resource_class": nullableShort, "traits": nullableTexts, "uuid": nullableText, "node": nullableText,
}

// chassisProperties are the fields that clients may set and patch.
var chassisProperties = m{
	"description": m{
		"type": []any{"string", "null"}, "maxLength": ledger.MaxChassisDescriptionRunes,
	}, "extra": nullableObject,
}

// nodeProperties are the fields that clients may set and patch.
var nodeProperties = m{
	"automated_clean": nullableBoolean, "bios_interface": nullableText, "boot_interface": nullableText,
	"chassis_uuid": nullableText, "conductor_group": nullableText, "console_interface": nullableText,
	"deploy_interface": nullableText, "description": nullableText, "driver": m{"type": "string"},
	"driver_info": nullableObject, "extra": nullableObject, "firmware_interface": nullableText,
	"inspect_interface": nullableText,
	"instance_info":     nullableObject, "instance_uuid": nullableText, "lessee": nullableText,
	"maintenance": nullableBoolean, "management_interface": nullableText, "name": nullableName,
	"network_data": nullableObject, "network_interface": nullableText, "owner": nullableText,
	"parent_node": nullableText, "power_interface": nullableText, "properties": nullableObject,
	"protected":        nullableBoolean,
	"protected_reason": nullableText, "raid_interface": nullableText, "rescue_interface": nullableText,
	"resource_class": nullableShort, "retired": nullableBoolean, "retired_reason": nullableText,
	"shard": nullableText, "storage_interface": nullableText, "vendor_interface": nullableText,
}

var (
	compiler = schema.NewCompiler()

	allocationSchema = compiler.Schema(closed(allocationProperties))
	nodeSchema       = compiler.Schema(closed(looseBooleans(with(nodeProperties, "uuid", nullableText)), "driver"))
	chassisSchema    = compiler.Schema(closed(with(chassisProperties, "uuid", nullableText)))
	patchSchema      = compiler.Schema(m{
		"type": "array",
		"items": m{
			"type": "object", "required": []any{"path", "op"}, "additionalProperties": false,
			"properties": m{
				"path":  m{"type": "string", "pattern": `^/.`},
				"op":    m{"type": "string", "enum": []any{"add", "replace", "remove"}},
				"value": m{},
			},
		},
	})
	traitsSchema = compiler.Schema(
		closed(m{"traits": m{"type": "array", "items": m{"type": "string"}}}, "traits"),
	)
	maintenanceSchema = compiler.Schema(closed(m{"reason": nullableText}))
	targetSchema      = compiler.Schema(
		m{"type": "object", "required": []any{"target"}, "properties": m{"target": m{"type": "string"}}},
	)

	allocationValues = schemasOf(allocationProperties)
	nodeValues       = schemasOf(nodeProperties)
	chassisValues    = schemasOf(chassisProperties)
)

var booleanFields = []string{"automated_clean", "maintenance", "protected", "retired"}

// looseBooleans accepts flags in any form. nodeBody makes booleans of them.
func looseBooleans(properties m) m {
	out := maps.Clone(properties)
	for _, name := range booleanFields {
		out[name] = m{"type": []any{"boolean", "string", "integer", "null"}}
	}
	return out
}

func closed(properties m, required ...string) m {
	return m{"type": "object", "properties": properties, "required": schema.List(required), "additionalProperties": false}
}

func with(properties m, key string, value any) m {
	out := maps.Clone(properties)
	out[key] = value
	return out
}

func schemasOf(properties m) map[string]schema.Schema {
	all := make(map[string]schema.Schema, len(properties))
	for name, source := range properties {
		all[name] = compiler.Schema(source.(m))
	}
	return all
}

// body reads and validates a request's body. An empty body counts as {}. It also
// returns the body as a document, which shows the fields that were given.
func (r *request) body(what string, s schema.Schema, into any) (doc any, err error) {
	if !r.mayWrite {
		return nil, errors.New("baremetal: a body is read before the policy was asked")
	}
	if err := rest.CheckContentType(r.Request); err != nil {
		return nil, rest.Errorf(http.StatusUnsupportedMediaType, "%v", err)
	}
	text, err := rest.ReadBody(r.Request, r.Lease, MaxBodyBytes)
	if err != nil {
		return nil, err
	}
	place, err := rest.PlaceFor(r.Request, r.Lease, text)
	if err != nil {
		return nil, err
	}
	defer place.End()
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	if err := document.Check(text); err != nil {
		return nil, rest.BadRequest("The body is not JSON that can be read in one way: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, rest.BadRequest("The body is not JSON: %v", err)
	}
	if fault := s.Fault(doc); fault != "" {
		return nil, rest.BadRequest("Schema error for %s: %s", what, fault)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, rest.BadRequest("Schema error for %s: %v", what, err)
	}
	return doc, nil
}

// patch reads a JSON Patch of some fields. It checks values that replace whole
// fields, in the plain form that commands take; the command checks the outcome.
func (r *request) patch(
	what string, values map[string]schema.Schema, patchable []string, plain func(field, text string) (string, error),
) ([]commands.PatchOperation, error) {
	var ops []commands.PatchOperation
	if _, err := r.body("patch", patchSchema, &ops); err != nil {
		return nil, err
	}
	for i, op := range ops {
		if !slices.Contains(patchable, op.Field()) {
			return nil, rest.BadRequest(
				"Cannot patch %s. Only the following can be updated: %s", op.Path, strings.Join(patchable, ", "),
			)
		}
		if op.Op == "remove" || op.Path != "/"+op.Field() {
			continue
		}
		if op.Value == "" {
			return nil, rest.BadRequest("Schema error for patch: 'value' is a required property")
		}
		if plain != nil {
			text, err := plain(op.Field(), string(op.Value))
			if err != nil {
				return nil, err
			}
			op.Value = commands.PatchValue(text)
			ops[i].Value = op.Value
		}
		var value any
		dec := json.NewDecoder(strings.NewReader(string(op.Value)))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil {
			return nil, rest.BadRequest("Schema error for %s: %v", what, err)
		}
		if fault := values[op.Field()].Fault(value); fault != "" {
			return nil, rest.BadRequest("Schema error for %s: %s", what, fault)
		}
	}
	return ops, nil
}
