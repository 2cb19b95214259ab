package placement

import (
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
)

// preferenceSchema is the body of PUT /preferences/{name}; null removes it. One schema with
// two types, so that what is wrong in a preference is told, and not that it is not null.
func preferenceSchema() m {
	prefer := preferSchema()
	prefer["type"] = []any{"object", "null"}
	return closed(m{"prefer": prefer}, "prefer")
}

func listPreferences(r *request) (*response, error) {
	list, err := present.PreferencesOf(r.View)
	if err != nil {
		return nil, err
	}
	return ok(list, 0), nil
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
