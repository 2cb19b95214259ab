package placement

import (
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

func isClassName(text string) bool { return len(text) <= ledger.MaxSymbolBytes && plainClass(text) }

func classPath(name string) string { return "/resource_classes/" + name }

func classBody(r *request, name string) m {
	return m{"name": name, "links": []link{{"self", r.Prefix + classPath(name)}}}
}

func listClasses(r *request) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	list := make([]m, 0, len(classes.All()))
	newest := int64(0)
	for _, c := range classes.All() {
		list = append(list, classBody(r, c.Name))
		newest = max(newest, c.UpdatedAt)
	}
	return ok(m{"resource_classes": list}, newest), nil
}

func showClass(r *request) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	id, known := classes.ID(r.params[0])
	if !known {
		return nil, rest.NotFound("No such resource class %s.", r.params[0])
	}
	c, _ := classes.Get(id)
	return ok(classBody(r, c.Name), c.UpdatedAt), nil
}

func createClass(r *request, doc any) (*response, error) {
	name := textOf(objectOf(doc).get("name"))
	outcome, err := r.Submit(&commands.CreateResourceClass{Name: name}, func(rejection *demand.Rejection) error {
		if rejection.Code == demand.CodeClassExists {
			return conflict("", "Conflicting resource class already exists: %s", name)
		}
		return general(rejection)
	})
	return ensured(outcome, classPath(name), false), err
}

// ensureClass is PUT from 1.7 on. It ignores the body.
func ensureClass(r *request) (*response, error) {
	name := r.params[0]
	if text := schemaFor("resource class", r.version).Check(m{"name": name}); text != "" {
		return nil, rest.BadRequest("JSON does not validate: %s", text)
	}
	outcome, err := r.Submit(&commands.CreateResourceClass{Name: name}, func(rejection *demand.Rejection) error {
		if rejection.Code == demand.CodeClassExists {
			return nil
		}
		return general(rejection)
	})
	return ensured(outcome, classPath(name), false), err
}

// renameClass is PUT at 1.2 to 1.6.
func renameClass(r *request, doc any) (*response, error) {
	c := &commands.RenameResourceClass{Name: r.params[0], NewName: textOf(objectOf(doc).get("name"))}
	_, err := r.Submit(c, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeClassUnknown:
			return rest.NotFound("No such resource class %s.", c.Name)
		case demand.CodeClassStandard:
			return rest.BadRequest("Cannot update standard resource class %s", c.Name)
		case demand.CodeClassExists:
			return conflict("", "Resource class already exists: %s", c.NewName)
		}
		return general(rejection)
	})
	return ok(classBody(r, c.NewName), 0), err
}

func deleteClass(r *request) (*response, error) {
	name := r.params[0]
	return r.noContentAfter(&commands.DeleteResourceClass{Name: name}, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeClassUnknown:
			return rest.NotFound("No such resource class %s.", name)
		case demand.CodeClassStandard:
			return rest.BadRequest("Error in delete resource class: Cannot delete standard resource class %s.", name)
		case demand.CodeClassInUse:
			return conflict(
				"", "Error in delete resource class: Cannot delete resource class %s. Class is in use in inventory.", name,
			)
		}
		return general(rejection)
	})
}
