package placement

import (
	"encoding/json"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// topologyParts are what a topology is written with.
func topologyParts() m {
	name := m{"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
	return m{
		"levels": m{"type": "array", "minItems": 1, "maxItems": demand.MaxTopologyLevels, "items": name},
		"members": keyed(uuidPattern, closed(
			m{"level": name, "name": name, "parent": uuidSchema}, "level", "name",
		), 0),
	}
}

func listTopologies(r *request) (*response, error) {
	list, err := present.TopologiesOf(r.View)
	if err != nil {
		return nil, err
	}
	return ok(list, 0), nil
}

func noTopology(name string) error { return rest.NotFound("No topology with name %s found", name) }

func showTopology(r *request) (*response, error) {
	one, err := present.TopologyOf(r.View, r.params[0])
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, noTopology(r.params[0])
	}
	return ok(one, 0), nil
}

func setTopology(r *request, doc any) (*response, error) {
	text, err := ledger.PlainJSON(plain(doc))
	if err != nil {
		return nil, err
	}
	c := &commands.SetTopology{Name: r.params[0], Topology: &demand.Topology{}}
	if err := json.Unmarshal(text, c.Topology); err != nil {
		return nil, rest.BadRequest("topology: %v", err)
	}
	return r.noContentAfter(c, limitRejected)
}

func deleteTopology(r *request) (*response, error) {
	outcome, err := r.Submit(&commands.SetTopology{Name: r.params[0]}, limitRejected)
	if err == nil && outcome.Address.Sequence == 0 {
		err = noTopology(r.params[0])
	}
	return noContent(), err
}
