package placement

import (
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
)

func reshape(r *request, doc any) (*response, error) {
	c, failure := reshapeOf(r, objectOf(doc))
	if failure != nil {
		return nil, failure
	}
	return r.noContentAfter(c, reshapeRejected)
}

func reshapeOf(r *request, body *object) (*commands.Reshape, *rest.Failure) {
	c := &commands.Reshape{}
	byProvider := objectOf(body.get("inventories"))
	for _, key := range byProvider.keys {
		id, valid := parseUUID(key)
		if !valid || id.IsNil() {
			return nil, reshapedProviderUnknown(key)
		}
		entry := objectOf(byProvider.get(key))
		inventories, failure := inventoriesOf(key, objectOf(entry.get("inventories")))
		if failure != nil {
			return nil, rest.BadRequest("malformed reshaper data: %s", failure.Message)
		}
		c.Inventories = append(c.Inventories, commands.ProviderInventories{
			Provider: id, Generation: integerPointer(entry, "resource_provider_generation"), Inventories: inventories,
		})
	}
	var failure *rest.Failure
	c.Allocations, failure = allocationReader{r.version}.consumers(objectOf(body.get("allocations")))
	return c, failure
}

func reshapedProviderUnknown(id any) *rest.Failure {
	return badRequest(codeProviderNotFound,
		"Resource provider %s in inventories not found: No resource provider with uuid %s found", id, id)
}

func reshapeRejected(r *demand.Rejection) error {
	switch r.Code {
	case demand.CodeProviderNotFound:
		return reshapedProviderUnknown(r.Facts.Provider)
	case demand.CodeProviderConflict:
		return conflict(codeConcurrentUpdate, "resource provider generation conflict for provider %s: actual: %d, given: %d",
			r.Facts.Provider, *r.Facts.Expected, *r.Facts.Got)
	case demand.CodeClassUnknown:
		return rest.BadRequest("malformed reshaper data: No such resource class %s.", r.Facts.Class)
	case demand.CodeInventoryInUse:
		return conflict(codeInventoryInUse, "update conflict: %s", inUseText(r))
	}
	return allocationRejected(r, "")
}
