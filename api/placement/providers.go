package placement

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// providerLinks are a provider's links, with the microversion from which each
// exists.
var providerLinks = []struct {
	rel  string
	from version
}{{"inventories", 0}, {"usages", 0}, {"aggregates", 1}, {"traits", 6}, {"allocations", 11}}

const treesSince version = 14

func providerPath(id ledger.UUID) string { return "/resource_providers/" + id.String() }

func providerBody(r *request, p *ledger.Provider) m {
	self := r.prefix + providerPath(p.UUID)
	links := []link{{"self", self}}
	for _, l := range providerLinks {
		if r.version >= l.from {
			links = append(links, link{l.rel, self + "/" + l.rel})
		}
	}
	body := m{"uuid": p.UUID, "name": p.Name, "generation": p.Generation, "links": links}
	if r.version >= treesSince {
		body["root_provider_uuid"] = p.Root
		body["parent_provider_uuid"] = nil
		if !p.Parent.IsNil() {
			body["parent_provider_uuid"] = p.Parent
		}
	}
	return body
}

// provider finds the provider that the path names.
func (r *request) provider() (*ledger.Provider, error) {
	p, err := r.providerNamed(r.params[0])
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, rest.NotFound("No resource provider with uuid %s found", r.params[0])
	}
	return p, nil
}

// providerAndBody finds the provider that the path names, and then reads the
// body. Placement does not read the body if the provider is missing.
func (r *request) providerAndBody() (*ledger.Provider, any, error) {
	p, err := r.provider()
	if err != nil {
		return nil, nil, err
	}
	doc, err := decodeBody(r)
	return p, doc, err
}

// providerNamed finds a provider by uuid; nil if there is none.
func (r *request) providerNamed(text string) (*ledger.Provider, error) {
	id, ok := parseUUID(text)
	if !ok {
		return nil, nil
	}
	p, found, err := r.view.Provider(id)
	if err != nil || !found {
		return nil, err
	}
	return p, nil
}

func showProvider(_ *Handler, r *request) (*response, error) {
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	return ok(providerBody(r, p), p.UpdatedAt), nil
}

func listProviders(h *Handler, r *request) (*response, error) {
	world, err := h.world(r)
	if err != nil {
		return nil, err
	}
	work := h.Searches.Begin(r.who.Client(r.RemoteAddr))
	defer work.End()
	query, err := parseProviderQuery(r)
	if err != nil {
		return nil, err
	}
	if err := work.Pause(r.Context()); err != nil {
		return nil, err
	}
	found := []m{}
	newest := int64(0)
	providers, err := query.find(r.view, world)
	if err != nil {
		return nil, err
	}
	for _, p := range providers {
		found = append(found, providerBody(r, p))
		newest = max(newest, p.UpdatedAt)
	}
	return ok(m{"resource_providers": found}, newest), nil
}

func createProvider(h *Handler, r *request) (*response, error) {
	doc, err := decodeBody(r)
	if err != nil {
		return nil, err
	}
	body := objectOf(doc)
	c := &commands.CreateProvider{Provider: rest.NewID(r.Request, "provider"), Name: textOf(body.get("name"))}
	if body.has("uuid") {
		c.Provider = uuidOf(body.get("uuid"))
	}
	if body.get("parent_provider_uuid") != nil {
		c.Parent = uuidOf(body.get("parent_provider_uuid"))
	}
	if c.Name == "" {
		return nil, rest.BadRequest(
			"Unable to create resource provider \"%s\", %s: Object action create failed because: name is required", c.Name,
			c.Provider,
		)
	}
	_, rejection, err := h.submit(r, c)
	if err != nil {
		return nil, err
	}
	if rejection != nil {
		return nil, createProviderRejected(c, rejection)
	}
	answer := &response{status: http.StatusCreated, location: providerPath(c.Provider)}
	if r.version >= 20 {
		p, found, err := r.view.Provider(c.Provider)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, conflict("", "resource provider %s was deleted meanwhile", c.Provider)
		}
		answer = ok(providerBody(r, p), p.UpdatedAt)
		answer.location = providerPath(c.Provider)
	}
	return answer, nil
}

func createProviderRejected(c *commands.CreateProvider, rejection *commands.Rejection) *rest.Failure {
	frame := fmt.Sprintf(
		"Unable to create resource provider \"%s\", %s: Object action create failed because: ", c.Name, c.Provider,
	)
	switch rejection.Code {
	case commands.CodeProviderExists:
		var taken []string
		if rejection.Facts.Name != "" {
			taken = append(taken, "name: "+rejection.Facts.Name)
		}
		if rejection.Facts.Provider != nil {
			taken = append(taken, "uuid: "+rejection.Facts.Provider.String())
		}
		return conflict(codeDuplicateName, "Conflicting resource provider %s already exists.", strings.Join(taken, ", "))
	case commands.CodeParentLoop:
		return rest.BadRequest(
			"%sparent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there is no parent.",
			frame,
		)
	case commands.CodeParentUnknown:
		return rest.BadRequest("%sparent provider UUID does not exist.", frame)
	}
	return general(rejection)
}

func updateProvider(h *Handler, r *request) (*response, error) {
	p, doc, err := r.providerAndBody()
	if err != nil {
		return nil, err
	}
	body := objectOf(doc)
	c := &commands.UpdateProvider{Rename: commands.RenameProvider{Provider: p.UUID, Name: textOf(body.get("name"))}}
	if body.has("parent_provider_uuid") {
		c.Reparent = &commands.ReparentProvider{Provider: p.UUID, RefuseMove: r.version < 37}
		if body.get("parent_provider_uuid") != nil {
			c.Reparent.Parent = uuidOf(body.get("parent_provider_uuid"))
		}
	}
	_, rejection, err := h.submit(r, c)
	if err != nil {
		return nil, err
	}
	if rejection != nil {
		return nil, updateProviderRejected(c, rejection)
	}
	return showProvider(h, r)
}

func updateProviderRejected(c *commands.UpdateProvider, rejection *commands.Rejection) *rest.Failure {
	frame := func(action, because string) *rest.Failure {
		return rest.BadRequest(
			"Unable to save resource provider %s: Object action %s failed because: %s", c.Rename.Provider, action, because,
		)
	}
	switch rejection.Code {
	case commands.CodeProviderExists:
		return conflict(codeDuplicateName, "Conflicting resource provider %s already exists.", rejection.Facts.Name)
	case commands.CodeParentUnknown:
		return frame("create", "parent provider UUID does not exist.")
	case commands.CodeParentLoop:
		return frame("update", "creating loop in the provider tree is not allowed.")
	case commands.CodeParentFixed:
		if c.Reparent.Parent.IsNil() {
			return frame("update", "un-parenting a provider is not currently allowed.")
		}
		return frame("update", "re-parenting a provider is not currently allowed.")
	}
	return general(rejection)
}

func deleteProvider(h *Handler, r *request) (*response, error) {
	id, valid := parseUUID(r.params[0])
	if !valid {
		return nil, rest.NotFound("No resource provider with uuid %s found for delete", r.params[0])
	}
	_, rejection, err := h.submit(r, &commands.DeleteProvider{Provider: id})
	if err != nil {
		return nil, err
	}
	if rejection == nil {
		return noContent(), nil
	}
	switch rejection.Code {
	case commands.CodeProviderNotFound:
		return nil, rest.NotFound("No resource provider with uuid %s found for delete", r.params[0])
	case commands.CodeProviderHasChild:
		return nil, conflict(
			codeDeleteParent, "Unable to delete parent resource provider %s: It has child resource providers.", id,
		)
	case commands.CodeProviderInUse:
		return nil, conflict(
			codeProviderInUse, "Unable to delete resource provider %s: Resource provider has allocations.", id,
		)
	}
	return nil, general(rejection)
}
