package baremetal

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

type nodeBody struct {
	*commands.CreateNode
	nodes   nodes
	failure error // names in a valid body
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *nodeBody) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if b.failure = b.nodes.known(maps.Keys(members), nodeSince); b.failure != nil {
		return nil
	}
	for name, value := range members {
		plain, err := b.nodes.plainField(name, string(value))
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

// plainField returns the JSON of a field in the one form that commands take:
// flags are booleans, and a parent is named by its uuid.
func (r nodes) plainField(name, text string) (string, error) {
	if slices.Contains(booleanFields, name) {
		plain, err := plainBoolean(name, text)
		if err != nil {
			return "", rest.BadRequest("%v", err)
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
		return "", rest.BadRequest("Node %s could not be found.", ident)
	}
	return `"` + n.UUID.String() + `"`, nil
}

// checkChassis requires that a node's chassis is one that the client may see.
func (r nodes) checkChassis(ident string) error {
	id, isUUID := parseUUID(ident)
	if !isUUID {
		return rest.BadRequest("Expected UUID for chassis_uuid: %s", ident)
	}
	found, err := false, error(nil)
	if r.seesChassis() {
		_, found, err = r.chassisByID(id)
	}
	if err != nil {
		return err
	}
	if !found {
		return chassisNotFound(http.StatusBadRequest, ident)
	}
	return nil
}

// plainBoolean returns true, false or null for any form that Ironic accepts.
func plainBoolean(name, text string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(strings.Trim(text, `"`))) {
	case "null":
		return "null", nil
	case "true", "1", "t", "yes", "y", "on":
		return "true", nil
	case "false", "0", "f", "no", "n", "off":
		return "false", nil
	}
	return "", fmt.Errorf( //nolint:staticcheck // Ironic says it so
		"Invalid %s: Unrecognized value %s, acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'",
		name, text,
	)
}
