package placement

import (
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func traitPath(name string) string { return "/traits/" + name }

func listTraits(h *Handler, r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	matches, failure := traitFilter(r.query.Get("name"), r.query.Has("name"))
	if failure != nil {
		return nil, failure
	}
	associated, err := associatedTraits(h, r)
	if err != nil {
		return nil, err
	}
	var traits []*ledger.Trait
	newest := int64(0)
	err = r.view.Traits(func(t *ledger.Trait) bool {
		if matches(t.Name) && associated(t.Name) {
			traits = append(traits, t)
			newest = max(newest, t.CreatedAt)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.query.Get("name"), "in:") {
		traitsInOrder(traits)
	}
	return ok(m{"traits": traitNames(traits)}, newest), nil
}

// traitFilter reads name=in:A,B and name=startswith:P. As upstream, any other
// word before the colon filters nothing.
func traitFilter(value string, given bool) (func(string) bool, *rest.Failure) {
	all := func(string) bool { return true }
	if !given {
		return all, nil
	}
	operator, operand, found := strings.Cut(value, ":")
	if !found {
		return nil, rest.BadRequest("Badly formatted name parameter. Expected name query string parameter in form: "+
			"?name=[in|startswith]:[name1,name2|prefix]. Got: \"%s\"", value)
	}
	switch operator {
	case "in":
		wanted := make(map[string]bool)
		for _, name := range strings.Split(operand, ",") {
			wanted[name] = true
		}
		return func(name string) bool { return wanted[name] }, nil
	case "startswith":
		return func(name string) bool { return strings.HasPrefix(name, operand) }, nil
	}
	return all, nil
}

// associatedTraits filters by whether some provider has the trait.
func associatedTraits(h *Handler, r *request) (func(string) bool, error) {
	if !r.query.Has("associated") {
		return func(string) bool { return true }, nil
	}
	wanted := strings.ToLower(r.query.Get("associated"))
	if wanted != "true" && wanted != "false" {
		return nil, rest.BadRequest("The query parameter \"associated\" only accepts \"true\" or \"false\"")
	}
	world, err := h.world(r)
	if err != nil {
		return nil, err
	}
	return func(name string) bool { return world.TraitInUse(name) == (wanted == "true") }, nil
}

func showTrait(_ *Handler, r *request) (*response, error) {
	trait, found, err := r.view.Trait(r.params[0])
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rest.NotFound("No such trait(s): %s.", r.params[0])
	}
	return &response{status: http.StatusNoContent, cache: true, modified: trait.CreatedAt}, nil
}

func ensureTrait(h *Handler, r *request) (*response, error) {
	name := r.params[0]
	_, rejection, err := h.submit(r, &commands.CreateTrait{Name: name})
	if err != nil {
		return nil, err
	}
	answer := &response{status: http.StatusCreated, location: traitPath(name), cache: true}
	if rejection != nil {
		switch rejection.Code {
		case demand.CodeTraitExists:
			answer.status = http.StatusNoContent
		case demand.CodeInvalid:
			return nil, rest.BadRequest(
				"The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix " +
					"\"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\"",
			)
		default:
			return nil, general(rejection)
		}
	}
	return answer, nil
}

func deleteTrait(h *Handler, r *request) (*response, error) {
	name := r.params[0]
	return h.noContentAfter(r, &commands.DeleteTrait{Name: name}, func(rejection *demand.Rejection) *rest.Failure {
		switch rejection.Code {
		case demand.CodeTraitUnknown:
			return rest.NotFound("No such trait(s): %s.", name)
		case demand.CodeTraitStandard:
			return rest.BadRequest("Cannot delete standard trait %s.", name)
		case demand.CodeTraitInUse:
			return conflict("", "The trait %s is in use by a resource provider.", name)
		}
		return general(rejection)
	})
}

func providerTraitsAnswer(p *ledger.Provider, names []string) *response {
	return ok(m{"traits": append([]string{}, names...), "resource_provider_generation": p.Generation}, p.UpdatedAt)
}

func showProviderTraits(_ *Handler, r *request) (*response, error) {
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	names, err := traitsAsMade(r, p.Traits)
	if err != nil {
		return nil, err
	}
	return providerTraitsAnswer(p, names), nil
}

func replaceProviderTraits(h *Handler, r *request) (*response, error) {
	doc, err := decodeBody(r) // before the provider, as upstream
	if err != nil {
		return nil, err
	}
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	body := objectOf(doc)
	_, rejection, err := h.submit(r, &commands.ReplaceProviderTraits{
		Provider: p.UUID, Generation: integerPointer(body, "resource_provider_generation"),
		Traits: stringsOf(body.get("traits")),
	})
	if err != nil {
		return nil, err
	}
	if rejection != nil {
		switch rejection.Code {
		case demand.CodeProviderConflict:
			return nil, generationChanged()
		case demand.CodeTraitUnknown:
			return nil, rest.BadRequest("No such trait %s", strings.Join(rejection.Facts.Names, ", "))
		}
		return nil, general(rejection)
	}
	if p, err = r.provider(); err != nil {
		return nil, err
	}
	return providerTraitsAnswer(p, p.Traits), nil // by name, as upstream
}

func deleteProviderTraits(h *Handler, r *request) (*response, error) {
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	return h.noContentAfter(r, &commands.ReplaceProviderTraits{Provider: p.UUID}, general)
}
