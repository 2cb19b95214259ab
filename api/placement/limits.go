package placement

import (
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// limitSchema is the body of PUT /limits.
func limitSchema() m {
	return closed(m{
		"project_id":     text(1, 255),
		"resource_class": m{"type": "string", "pattern": classPattern, "maxLength": 255},
		"consumer_type":  m{"type": "string", "minLength": 1, "maxLength": 255},
		"aggregate":      uuidSchema,
		"limit":          m{"type": []any{"integer", "null"}, "minimum": 0, "maximum": int64(1<<63 - 1)},
	}, "limit")
}

func showLimits(_ *Handler, r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	limits, err := present.LimitsOf(r.view, r.query.Get("project_id"))
	if err != nil {
		return nil, err
	}
	return ok(limits, 0), nil
}

// showLimitVersions tells what one limit was.
func showLimitVersions(_ *Handler, r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	name := present.LimitName{
		Project: r.query.Get("project_id"), Class: r.query.Get("resource_class"), Type: r.query.Get("consumer_type"),
	}
	if text := r.query.Get("aggregate"); text != "" {
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
	versions, known, err := present.LimitVersionsOf(r.view, name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, rest.BadRequest("no resource class %s", name.Class)
	}
	return ok(versions, 0), nil
}

func setLimit(h *Handler, r *request) (*response, error) {
	doc, err := decodeBody(r)
	if err != nil {
		return nil, err
	}
	body := objectOf(doc)
	c := &commands.SetLimit{
		Project: textOf(body.get("project_id")), Class: textOf(body.get("resource_class")),
		Type: textOf(body.get("consumer_type")), Aggregate: uuidOf(body.get("aggregate")),
	}
	if body.get("limit") != nil {
		c.Most = integerPointer(body, "limit")
	}
	return limitAnswer(h, r, c)
}

func placeProject(h *Handler, r *request) (*response, error) {
	doc, err := decodeBody(r)
	if err != nil {
		return nil, err
	}
	return limitAnswer(h, r, &commands.PlaceProject{Project: r.params[0], Parent: textOf(objectOf(doc).get("parent_id"))})
}

func limitAnswer(h *Handler, r *request, c commands.Command) (*response, error) {
	return h.noContentAfter(r, c, limitRejected)
}

func limitRejected(r *demand.Rejection) *rest.Failure {
	if r.Code == demand.CodeProjectLoop {
		return conflict("", "%s", r.Message)
	}
	return general(r)
}
