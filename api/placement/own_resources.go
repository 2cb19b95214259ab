package placement

import (
	"encoding/json"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func limitSchema() m {
	return closed(m{
		"project_id":     text(1, 255),
		"resource_class": m{"type": "string", "pattern": classPattern, "maxLength": 255},
		"consumer_type":  m{"type": "string", "minLength": 1, "maxLength": 255},
		"aggregate":      uuidSchema,
		"limit":          m{"type": []any{"integer", "null"}, "minimum": 0, "maximum": int64(1<<63 - 1)},
	}, "limit")
}

func showLimits(r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	limits, err := present.LimitsOf(r.View, r.Query.Get("project_id"))
	return ok(limits, 0), err
}

func showLimitVersions(r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	name := present.LimitName{
		Project: r.Query.Get("project_id"), Class: r.Query.Get("resource_class"), Type: r.Query.Get("consumer_type"),
	}
	if text := r.Query.Get("aggregate"); text != "" {
		id, err := ledger.ParseUUID(text)
		if err != nil {
			return nil, rest.BadRequest("aggregate: %q is not a uuid", text)
		}
		name.Aggregate = id
	}
	one := &commands.SetLimit{Project: name.Project, Class: name.Class, Type: name.Type, Aggregate: name.Aggregate}
	if rejection := commands.Check(one); rejection != nil {
		return nil, limitRejected(rejection)
	}
	versions, known, err := present.LimitVersionsOf(r.View, name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, rest.BadRequest("no resource class %s", name.Class)
	}
	return ok(versions, 0), nil
}

func setLimit(r *request, doc any) (*response, error) {
	body := objectOf(doc)
	c := &commands.SetLimit{
		Project: textOf(body.get("project_id")), Class: textOf(body.get("resource_class")),
		Type: textOf(body.get("consumer_type")), Aggregate: uuidOf(body.get("aggregate")),
	}
	if body.get("limit") != nil {
		c.Most = integerPointer(body, "limit")
	}
	return r.noContentAfter(c, limitRejected)
}

func placeProject(r *request, doc any) (*response, error) {
	c := &commands.PlaceProject{Project: r.params[0], Parent: textOf(objectOf(doc).get("parent_id"))}
	return r.noContentAfter(c, limitRejected)
}

func limitRejected(r *demand.Rejection) error {
	if r.Code == demand.CodeProjectLoop {
		return conflict("", "%s", r.Message)
	}
	return general(r)
}

// preferenceSchema is the body of PUT /preferences/{name}; null removes it. One schema with
// two types, so that what is wrong in a preference is told, and not that it is not null.
func preferenceSchema() m {
	prefer := preferSchema()
	prefer["type"] = []any{"object", "null"}
	return closed(m{"prefer": prefer}, "prefer")
}

func listPreferences(r *request) (*response, error) {
	list, err := present.PreferencesOf(r.View)
	return ok(list, 0), err
}

func showPreference(r *request) (*response, error) {
	one, err := present.PreferenceOf(r.View, r.params[0])
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, rest.NotFound("No preference with name %s found", r.params[0])
	}
	return ok(one, 0), nil
}

func setPreference(r *request, doc any) (_ *response, err error) {
	c := &commands.SetPreference{Name: r.params[0]}
	if prefer := objectOf(doc).get("prefer"); prefer != nil {
		if c.Prefer, err = preferenceOf(prefer); err != nil {
			return nil, err
		}
	}
	return r.noContentAfter(c, limitRejected)
}

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
	return ok(list, 0), err
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
