package placement

import (
	"net/http"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/demand"
)

// general maps the rejections that mean the same on every route. Handlers handle
// their own first.
func general(r *demand.Rejection) error {
	switch r.Code {
	case demand.CodeTooLarge:
		return rest.Errorf(http.StatusRequestEntityTooLarge, "%s", r.Message)
	case demand.CodeCommandIDReused, demand.CodeNodeIsProvider, demand.CodeNotYet:
		return conflict("", "%s", r.Message)
	case demand.CodeOverLimit:
		return conflict(codeOverLimit, "%s", r.Message)
	case demand.CodeProviderNotFound:
		return rest.NotFound("No resource provider with uuid %s found", r.Facts.Provider)
	case demand.CodeProviderConflict:
		return conflict(codeConcurrentUpdate, "resource provider generation conflict")
	}
	return rest.BadRequest("%s", r.Message)
}
