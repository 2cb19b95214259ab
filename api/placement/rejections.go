package placement

import (
	"net/http"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
)

// general maps the rejections that mean the same on every route. Handlers handle
// their own first.
func general(r *commands.Rejection) *rest.Failure {
	switch r.Code {
	case commands.CodeTooLarge:
		return rest.Errorf(http.StatusRequestEntityTooLarge, "%s", r.Message)
	case commands.CodeCommandIDReused, commands.CodeNodeIsProvider, commands.CodeNotYet:
		return conflict("", "%s", r.Message)
	case commands.CodeOverLimit:
		return conflict(codeOverLimit, "%s", r.Message)
	case commands.CodeProviderNotFound:
		return rest.NotFound("No resource provider with uuid %s found", r.Facts.Provider)
	case commands.CodeProviderConflict:
		return conflict(codeConcurrentUpdate, "resource provider generation conflict")
	}
	return rest.BadRequest("%s", r.Message)
}
