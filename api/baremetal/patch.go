package baremetal

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/schema"
	"github.com/allot-project/allot/commands"
)

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
