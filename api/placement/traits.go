package placement

import (
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func listTraits(r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	matches, failure := traitFilter(r.Query.Get("name"), r.Query.Has("name"))
	if failure != nil {
		return nil, failure
	}
	associated, err := associatedTraits(r)
	if err != nil {
		return nil, err
	}
	var traits []*ledger.Trait
	newest := int64(0)
	err = r.View.Traits(func(t *ledger.Trait) bool {
		if matches(t.Name) && associated(t.Name) {
			traits = append(traits, t)
			newest = max(newest, t.CreatedAt)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.Query.Get("name"), "in:") {
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

func associatedTraits(r *request) (func(string) bool, error) {
	if !r.Query.Has("associated") {
		return func(string) bool { return true }, nil
	}
	wanted := strings.ToLower(r.Query.Get("associated"))
	if wanted != "true" && wanted != "false" {
		return nil, rest.BadRequest("The query parameter \"associated\" only accepts \"true\" or \"false\"")
	}
	world, err := r.world()
	if err != nil {
		return nil, err
	}
	return func(name string) bool { return world.TraitInUse(name) == (wanted == "true") }, nil
}

func showTrait(r *request) (*response, error) {
	trait, found, err := r.View.Trait(r.params[0])
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rest.NotFound("No such trait(s): %s.", r.params[0])
	}
	return &response{status: http.StatusNoContent, cache: true, modified: trait.CreatedAt}, nil
}

func ensureTrait(r *request) (*response, error) {
	name := r.params[0]
	outcome, err := r.Submit(&commands.CreateTrait{Name: name}, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeTraitExists:
			return nil
		case demand.CodeInvalid:
			return rest.BadRequest(
				"The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix " +
					"\"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\"",
			)
		}
		return general(rejection)
	})
	return ensured(outcome, "/traits/"+name, true), err
}

// ensured answers that something is there: a 201 if it was made, and a 204 if it was there before.
func ensured(outcome commands.Outcome, path string, cache bool) *response {
	status := http.StatusCreated
	if outcome.Rejection != nil {
		status = http.StatusNoContent
	}
	return &response{status: status, location: path, cache: cache}
}

func deleteTrait(r *request) (*response, error) {
	name := r.params[0]
	return r.noContentAfter(&commands.DeleteTrait{Name: name}, func(rejection *demand.Rejection) error {
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

func showProviderTraits(r *request, p *ledger.Provider) (*response, error) {
	names, err := traitsAsMade(r, p.Traits)
	return providerTraitsAnswer(p, names), err
}

func replaceProviderTraits(r *request, doc any) (*response, error) { // the body before the provider, as upstream
	return withProvider(func(r *request, p *ledger.Provider) (*response, error) {
		body := objectOf(doc)
		_, err := r.Submit(&commands.ReplaceProviderTraits{
			Provider: p.UUID, Generation: integerPointer(body, "resource_provider_generation"),
			Traits: stringsOf(body.get("traits")),
		}, func(rejection *demand.Rejection) error {
			switch rejection.Code {
			case demand.CodeProviderConflict:
				return generationChanged()
			case demand.CodeTraitUnknown:
				return rest.BadRequest("No such trait %s", strings.Join(rejection.Facts.Names, ", "))
			}
			return general(rejection)
		})
		if err != nil {
			return nil, err
		}
		return withProvider(func(_ *request, p *ledger.Provider) (*response, error) {
			return providerTraitsAnswer(p, p.Traits), nil // by name, as upstream
		})(r)
	})(r)
}

func deleteProviderTraits(r *request, p *ledger.Provider) (*response, error) {
	return r.noContentAfter(&commands.ReplaceProviderTraits{Provider: p.UUID}, general)
}
