package baremetal

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// chassisFields are those of a chassis, in Ironic's order.
var chassisFields = []string{"uuid", "created_at", "updated_at", "description", "extra", "links", "nodes"}

// shortChassisFields are those of a list that asks for none.
var shortChassisFields = []string{"uuid", "description"}

// describeChassis is a chassis as clients see it.
func (r *request) describeChassis(c *ledger.Chassis, fields []string) object {
	path := "/chassis/" + c.UUID.String()
	return object{
		{"uuid", c.UUID}, {"created_at", timeText(c.CreatedAt)}, {"updated_at", timeText(c.UpdatedAt)},
		{"description", orNull(c.Description)}, {"extra", c.Extra},
		{"links", r.links(path)}, {"nodes", r.links(path + "/nodes")},
	}.only(fields)
}

// chassis serves /chassis and what is below it.
func (r *request) chassis(path []string) (*response, error) {
	switch {
	case len(path) == 0:
		return r.methods(map[string]func() (*response, error){
			http.MethodGet: func() (*response, error) { return r.listChassis(false) }, http.MethodPost: r.createChassis,
		})
	case len(path) == 1 && path[0] == "detail":
		return r.methods(map[string]func() (*response, error){
			http.MethodGet: func() (*response, error) { return r.listChassis(true) },
		})
	case len(path) == 1:
		return r.methods(map[string]func() (*response, error){
			http.MethodGet:    func() (*response, error) { return r.showChassis(path[0]) },
			http.MethodPatch:  func() (*response, error) { return r.updateChassis(path[0]) },
			http.MethodDelete: func() (*response, error) { return r.deleteChassis(path[0]) },
		})
	case path[1] == "nodes" && (len(path) == 2 || len(path) == 3 && path[2] == "detail"):
		return r.methods(map[string]func() (*response, error){
			http.MethodGet: func() (*response, error) { return r.listNodes(len(path) == 3, path[0]) },
		})
	}
	return nil, rest.NotFound("There is nothing here: of a chassis this ledger keeps the nodes that are in it.")
}

// chassisFor finds the chassis that a path names, for something that a rule
// allows. The rules are about no chassis in particular, so that they are asked
// before one is looked for.
func (r *request) chassisFor(ident, rule string) (*ledger.Chassis, error) {
	if !r.allows(rule, nil) {
		return nil, forbidden(rule)
	}
	id, isUUID := parseUUID(ident)
	if !isUUID && r.Method != http.MethodPatch { // whose ident Ironic does not check
		return nil, rest.BadRequest("Expected UUID for chassis_uuid: %s", ident)
	}
	c, found, err := r.chassisByID(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, chassisNotFound(http.StatusNotFound, ident)
	}
	return c, nil
}

func (r *request) createChassis() (*response, error) {
	if !r.allows("baremetal:chassis:create", nil) {
		return nil, forbidden("baremetal:chassis:create")
	}
	var body struct {
		UUID *string `json:"uuid"`
		commands.ChassisFields
	}
	if _, err := r.body("chassis", chassisSchema, &body); err != nil {
		return nil, err
	}
	c := commands.CreateChassis{ChassisFields: body.ChassisFields}
	if body.UUID == nil || *body.UUID == "" {
		c.Chassis = rest.NewID(r.Request, "chassis")
	} else {
		var isUUID bool
		if c.Chassis, isUUID = parseUUID(*body.UUID); !isUUID {
			return nil, rest.BadRequest("Expected UUID for uuid: %s", *body.UUID)
		}
	}
	outcome, err := r.carry("chassis", &c, nil)
	if err != nil {
		return nil, err
	}
	if r.view, err = r.h.Views.ViewAt(outcome.Address.Sequence); err != nil {
		return nil, err
	}
	answer, err := r.chassisAnswer(c.Chassis)
	if err != nil {
		return nil, err
	}
	answer.status, answer.location = http.StatusCreated, "/v1/chassis/"+c.Chassis.String()
	return answer, nil
}

// chassisAnswer describes a chassis of the request's view.
func (r *request) chassisAnswer(id ledger.UUID) (*response, error) {
	c, found, err := r.writtenChassis(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, chassisNotFound(http.StatusNotFound, id.String())
	}
	return ok(r.describeChassis(c, nil)), nil
}

func (r *request) showChassis(ident string) (*response, error) {
	find := func() (*ledger.Chassis, error) { return r.chassisFor(ident, "baremetal:chassis:get") }
	return show(r, r.chassisFields, find, func(c *ledger.Chassis, asked []string) (object, error) {
		return r.describeChassis(c, asked), nil
	})
}

func (r *request) chassisFields(values url.Values) ([]string, error) {
	if values.Has("fields") && r.version < fieldsSince {
		return nil, notAcceptable()
	}
	return fields(values, chassisFields)
}

func (r *request) updateChassis(ident string) (*response, error) {
	c, err := r.chassisFor(ident, "baremetal:chassis:update")
	if err != nil {
		return nil, err
	}
	ops, err := r.patch("chassis", chassisValues, []string{"description", "extra"})
	if err != nil {
		return nil, err
	}
	answer, err := r.accepted("chassis", &commands.UpdateChassis{Chassis: c.UUID, Patch: ops}, nil)
	if err != nil {
		return answer, err
	}
	return r.chassisAnswer(c.UUID)
}

func (r *request) deleteChassis(ident string) (*response, error) {
	c, err := r.chassisFor(ident, "baremetal:chassis:delete")
	if err != nil {
		return nil, err
	}
	return r.accepted("chassis", &commands.DeleteChassis{Chassis: c.UUID}, noContent())
}

// chassisKeys are what lists of chassis can be sorted by.
var chassisKeys = map[string]func(*ledger.Chassis) string{
	"uuid":         func(c *ledger.Chassis) string { return c.UUID.String() },
	"description":  func(c *ledger.Chassis) string { return c.Description },
	"created_at":   func(c *ledger.Chassis) string { return sortableTime(c.CreatedAt) },
	"updated_at":   func(c *ledger.Chassis) string { return sortableTime(c.UpdatedAt) },
	defaultSortKey: func(*ledger.Chassis) string { return "" },
}

var chassisListParameters = []string{"fields", "detail", "limit", "marker", "sort_key", "sort_dir"}

func (r *request) listChassis(detail bool) (*response, error) {
	if !r.allows("baremetal:chassis:get", nil) {
		return nil, forbidden("baremetal:chassis:get")
	}
	path, known := "/chassis", chassisListParameters
	if detail {
		path, known = "/chassis/detail", slices.DeleteFunc(
			slices.Clone(known), func(name string) bool { return name == "fields" || name == "detail" },
		)
	}
	values, err := r.parameters(known...)
	if err != nil {
		return nil, err
	}
	asked, err := r.listedChassisFields(values, detail)
	if err != nil {
		return nil, err
	}
	all := func(*ledger.Chassis) bool { return true }
	return list(r, values, r.listedChassis(), path, all, func(c *ledger.Chassis) (object, error) {
		return r.describeChassis(c, asked), nil
	})
}

// listedChassisFields are those that a list shows; nil: all.
func (r *request) listedChassisFields(values url.Values, detail bool) ([]string, error) {
	asked, err := r.chassisFields(values)
	if err != nil {
		return nil, err
	}
	if values.Has("detail") {
		if r.version < detailSince {
			return nil, rest.BadRequest("Invalid query parameter ?detail=%s received.", values.Get("detail"))
		}
		if detail, err = boolean(values, "detail"); err != nil {
			return nil, err
		}
	}
	switch {
	case detail && asked != nil:
		return nil, rest.BadRequest("Can not specify ?detail=True and fields in the same request.")
	case !detail && asked == nil:
		asked = shortChassisFields
	}
	return asked, nil
}

// chassisFilter lists the nodes in one chassis. Who may not see chassis is not
// told which there are: the list is then empty.
func (r *request) chassisFilter(values url.Values) (func(*ledger.Node) bool, error) {
	if !values.Has("chassis_uuid") {
		return func(*ledger.Node) bool { return true }, nil
	}
	ident := values.Get("chassis_uuid")
	id, isUUID := parseUUID(ident)
	if !isUUID {
		return nil, rest.BadRequest("Expected UUID for chassis_uuid: %s", ident)
	}
	if r.seesChassis() {
		_, found, err := r.chassisByID(id)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, chassisNotFound(http.StatusNotFound, ident)
		}
	}
	text := id.String()
	return func(n *ledger.Node) bool { return n.Chassis() == text }, nil
}

// checkChassis wants the chassis that a node is said to be in to be one that
// the client may know of.
func (r *request) checkChassis(ident string) error {
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
