package placement

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// providerLinks are a provider's links, with the microversion from which each
// exists.
var providerLinks = []struct {
	rel  string
	from version
}{{"inventories", 0}, {"usages", 0}, {"aggregates", 1}, {"traits", 6}, {"allocations", 11}}

const treesSince version = 14

func providerPath(id ledger.UUID) string { return "/resource_providers/" + id.String() }

type providerBody struct {
	*ledger.Provider
	version version
	prefix  string
}

func bodyOf(r *request, p *ledger.Provider) providerBody { return providerBody{p, r.version, r.Prefix} }

// AppendJSON implements rest.Appender. The members are in the order of their names.
func (p providerBody) AppendJSON(b []byte) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"generation":`...), p.Generation, 10)
	b, err := p.appendLinks(append(b, `,"links":`...))
	if err != nil {
		return nil, err
	}
	if b, err = rest.AppendText(append(b, `,"name":`...), p.Name); err != nil {
		return nil, err
	}
	if p.version >= treesSince {
		b = append(b, `,"parent_provider_uuid":`...)
		if p.Parent.IsNil() {
			b = append(b, "null"...)
		} else {
			b = p.Parent.AppendQuoted(b)
		}
		b = p.Root.AppendQuoted(append(b, `,"root_provider_uuid":`...))
	}
	return append(p.UUID.AppendQuoted(append(b, `,"uuid":`...)), '}'), nil
}

func (p providerBody) appendLinks(b []byte) ([]byte, error) {
	begin := len(b)
	b, err := rest.AppendText(append(b, `[{"rel":"self","href":`...), p.prefix+providerPath(p.UUID))
	if err != nil {
		return nil, err
	}
	self := b[begin+len(`[{"rel":"self","href":`) : len(b)-1] // without its last quotation mark
	b = append(b, '}')
	for _, l := range providerLinks {
		if p.version >= l.from {
			b = append(append(b, `,{"rel":"`...), l.rel...)
			b = append(append(b, `","href":`...), self...)
			b = append(append(append(b, '/'), l.rel...), `"}`...)
		}
	}
	return append(b, ']'), nil
}

// longerName is by how much names may be longer than the first one of a list in the mean.
const longerName = 16

type providerList []providerBody

// AppendJSON implements rest.Appender.
func (l providerList) AppendJSON(b []byte) (_ []byte, err error) {
	b = append(b, '[')
	for i, p := range l {
		begin := len(b)
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = p.AppendJSON(b); err != nil {
			return nil, err
		}
		if i == 0 { // the others are about as long: room is made once
			b = slices.Grow(b, (len(b)-begin+longerName)*len(l))
		}
	}
	return append(b, ']'), nil
}

// providerNamed finds a provider by uuid; nil if there is none.
func (r *request) providerNamed(text string) (*ledger.Provider, error) {
	id, ok := parseUUID(text)
	if !ok {
		return nil, nil
	}
	p, found, err := r.View.Provider(id)
	if err != nil || !found {
		return nil, err
	}
	return p, nil
}

func showProvider(r *request, p *ledger.Provider) (*response, error) {
	return ok(bodyOf(r, p), p.UpdatedAt), nil
}

func listProviders(r *request) (*response, error) {
	world, err := r.world()
	if err != nil {
		return nil, err
	}
	query, err := parseProviderQuery(r)
	if err != nil {
		return nil, err
	}
	if err := r.Work.Pause(r.Context()); err != nil {
		return nil, err
	}
	newest := int64(0)
	providers, err := query.find(r.View, world)
	if err != nil {
		return nil, err
	}
	found := make(providerList, 0, len(providers))
	for _, p := range providers {
		found = append(found, bodyOf(r, p))
		newest = max(newest, p.UpdatedAt)
	}
	// It is written while this has its place: others are listed after that.
	body, err := rest.Encode(m{"resource_providers": found})
	return ok(body, newest), err
}

func createProvider(r *request, doc any) (*response, error) {
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
	_, err := r.Submit(c, func(rejection *demand.Rejection) error { return createProviderRejected(c, rejection) })
	if err != nil {
		return nil, err
	}
	answer := &response{status: http.StatusCreated, location: providerPath(c.Provider)}
	if r.version >= 20 {
		p, found, err := r.View.Provider(c.Provider)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, conflict("", "resource provider %s was deleted meanwhile", c.Provider)
		}
		answer = ok(bodyOf(r, p), p.UpdatedAt)
		answer.location = providerPath(c.Provider)
	}
	return answer, nil
}

func createProviderRejected(c *commands.CreateProvider, rejection *demand.Rejection) error {
	frame := fmt.Sprintf(
		"Unable to create resource provider \"%s\", %s: Object action create failed because: ", c.Name, c.Provider,
	)
	switch rejection.Code {
	case demand.CodeProviderExists:
		// The uuid comes first, as with MariaDB's: nova and zun take a conflict that does
		// not name the name for one with another creator of the same provider.
		taken := "name: " + rejection.Facts.Name
		if rejection.Facts.Provider != nil {
			taken = "uuid: " + rejection.Facts.Provider.String()
		}
		return conflict(codeDuplicateName, "Conflicting resource provider %s already exists.", taken)
	case demand.CodeParentLoop:
		return rest.BadRequest(
			"%sparent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there is no parent.",
			frame,
		)
	case demand.CodeParentUnknown:
		return rest.BadRequest("%sparent provider UUID does not exist.", frame)
	}
	return general(rejection)
}

func updateProvider(r *request, p *ledger.Provider, doc any) (*response, error) {
	body := objectOf(doc)
	c := &commands.UpdateProvider{Rename: commands.RenameProvider{Provider: p.UUID, Name: textOf(body.get("name"))}}
	if body.has("parent_provider_uuid") {
		c.Reparent = &commands.ReparentProvider{Provider: p.UUID, RefuseMove: r.version < 37}
		if body.get("parent_provider_uuid") != nil {
			c.Reparent.Parent = uuidOf(body.get("parent_provider_uuid"))
		}
	}
	_, err := r.Submit(c, func(rejection *demand.Rejection) error { return updateProviderRejected(c, rejection) })
	if err != nil {
		return nil, err
	}
	return withProvider(showProvider)(r)
}

func updateProviderRejected(c *commands.UpdateProvider, rejection *demand.Rejection) error {
	frame := func(action, because string) *rest.Failure {
		return rest.BadRequest(
			"Unable to save resource provider %s: Object action %s failed because: %s", c.Rename.Provider, action, because,
		)
	}
	switch rejection.Code {
	case demand.CodeProviderExists:
		return conflict(codeDuplicateName, "Conflicting resource provider %s already exists.", rejection.Facts.Name)
	case demand.CodeParentUnknown:
		return frame("create", "parent provider UUID does not exist.")
	case demand.CodeParentLoop:
		return frame("update", "creating loop in the provider tree is not allowed.")
	case demand.CodeParentFixed:
		if c.Reparent.Parent.IsNil() {
			return frame("update", "un-parenting a provider is not currently allowed.")
		}
		return frame("update", "re-parenting a provider is not currently allowed.")
	}
	return general(rejection)
}

func deleteProvider(r *request) (*response, error) {
	id, valid := parseUUID(r.params[0])
	if !valid {
		return nil, rest.NotFound("No resource provider with uuid %s found for delete", r.params[0])
	}
	return r.noContentAfter(&commands.DeleteProvider{Provider: id}, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeProviderNotFound:
			return rest.NotFound("No resource provider with uuid %s found for delete", r.params[0])
		case demand.CodeProviderHasChild:
			return conflict(
				codeDeleteParent, "Unable to delete parent resource provider %s: It has child resource providers.", id,
			)
		case demand.CodeProviderInUse:
			return conflict(
				codeProviderInUse, "Unable to delete resource provider %s: Resource provider has allocations.", id,
			)
		}
		return general(rejection)
	})
}
