package baremetal

import (
	"net/http"
	"net/url"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// chassisFields are the fields of a chassis, in Ironic's order.
var chassisFields = []string{"uuid", "created_at", "updated_at", "description", "extra", "links", "nodes"}

// shortChassisFields are the fields in a list, if the client names none.
var shortChassisFields = []string{"uuid", "description"}

type chassis struct{ *request }

// describe returns a chassis in the form that clients see.
func (r chassis) describe(c *ledger.Chassis, fields []string) (object, error) {
	path := "/chassis/" + c.UUID.String()
	return object{
		{"uuid", c.UUID}, {"created_at", timeText(c.CreatedAt)}, {"updated_at", timeText(c.UpdatedAt)},
		{"description", orNull(c.Description)}, {"extra", c.Extra},
		{"links", r.links(path)}, {"nodes", r.links(path + "/nodes")},
	}.only(fields), nil
}

// allowed finds the chassis that the path names, if a rule permits it. The rules
// hold for all chassis alike, so they are checked before the chassis is looked
// up.
func (r chassis) allowed(rule string) (*ledger.Chassis, error) {
	if !r.allows(rule, nil) {
		return nil, forbidden(rule)
	}
	id, isUUID := parseUUID(r.ident)
	if !isUUID && r.Method != http.MethodPatch { // Ironic does not check the ident of a PATCH
		return nil, rest.BadRequest("Expected UUID for chassis_uuid: %s", r.ident)
	}
	c, found, err := r.chassisByID(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, chassisNotFound(http.StatusNotFound, r.ident)
	}
	return c, nil
}

func (r chassis) create() (*response, error) {
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
	return r.created("chassis", &c, nil, func() (*response, error) {
		return showWritten(r.all(), c.Chassis, http.StatusCreated)
	})
}

func (r chassis) show() (*response, error) {
	return show(r.request, r.all(), func() (*ledger.Chassis, error) { return r.allowed("baremetal:chassis:get") })
}

func (r chassis) fields(values url.Values) ([]string, error) {
	if values.Has("fields") && r.version < fieldsSince {
		return nil, notAcceptable()
	}
	return fields(values, chassisFields)
}

func (r chassis) update() (*response, error) {
	c, err := r.allowed("baremetal:chassis:update")
	if err != nil {
		return nil, err
	}
	ops, err := r.patch("chassis", chassisValues, []string{"description", "extra"}, nil)
	if err != nil {
		return nil, err
	}
	if _, err := r.carry("chassis", &commands.UpdateChassis{Chassis: c.UUID, Patch: ops}, nil); err != nil {
		return nil, err
	}
	return showWritten(r.all(), c.UUID, http.StatusOK)
}

func (r chassis) delete() (*response, error) {
	c, err := r.allowed("baremetal:chassis:delete")
	if err != nil {
		return nil, err
	}
	return r.accepted("chassis", &commands.DeleteChassis{Chassis: c.UUID}, noContent())
}

var chassisKeys = map[string]func(*ledger.Chassis) string{
	"uuid":         func(c *ledger.Chassis) string { return c.UUID.String() },
	"description":  func(c *ledger.Chassis) string { return c.Description },
	"created_at":   func(c *ledger.Chassis) string { return sortableTime(c.CreatedAt) },
	"updated_at":   func(c *ledger.Chassis) string { return sortableTime(c.UpdatedAt) },
	defaultSortKey: func(*ledger.Chassis) string { return "" },
}

// chassisListParameters are those of lists; the first two are not of those in detail.
var chassisListParameters = []string{"fields", "detail", "limit", "marker", "sort_key", "sort_dir"}

func (r chassis) list() (*response, error) {
	return r.listAll("/chassis", chassisListParameters, false)
}

func (r chassis) listInDetail() (*response, error) {
	return r.listAll("/chassis/detail", chassisListParameters[2:], true)
}

func (r chassis) listAll(path string, known []string, detail bool) (*response, error) {
	if !r.allows("baremetal:chassis:get", nil) {
		return nil, forbidden("baremetal:chassis:get")
	}
	values, err := r.parameters(known...)
	if err != nil {
		return nil, err
	}
	asked, err := r.listedFields(values, detail)
	if err != nil {
		return nil, err
	}
	all := func(*ledger.Chassis) bool { return true }
	return list(r.request, r.all(), values, path, all, asked)
}

// listedFields returns the fields that a list shows; nil: all.
func (r chassis) listedFields(values url.Values, detail bool) ([]string, error) {
	asked, err := r.fields(values)
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
