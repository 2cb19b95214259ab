package baremetal

import (
	"fmt"
	"net/http"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// apiError is an answer that is not a success.
type apiError struct {
	status     int
	message    string
	allow      string // of a 405
	retryAfter string // of a 503
}

// Error implements error.
func (e *apiError) Error() string { return e.message }

func errorf(status int, format string, args ...any) *apiError {
	return &apiError{status: status, message: rest.Message(fmt.Sprintf(format, args...))}
}

func badRequest(format string, args ...any) *apiError {
	return errorf(http.StatusBadRequest, format, args...)
}

func notFound(format string, args ...any) *apiError {
	return errorf(http.StatusNotFound, format, args...)
}

func allocationNotFound(ident string) *apiError {
	return notFound("Allocation %s could not be found.", ident)
}

func nodeNotFound(status int, ident string) *apiError {
	return errorf(status, "Node %s could not be found.", ident)
}

func chassisNotFound(status int, ident string) *apiError {
	return errorf(status, "Chassis %s could not be found.", ident)
}

func notAcceptable() *apiError {
	return errorf(http.StatusNotAcceptable, "Request not acceptable.")
}

func methodNotAllowed(allow string) *apiError {
	e := errorf(http.StatusMethodNotAllowed, "The method is not allowed for this resource.")
	e.allow = allow
	return e
}

// writeError answers in Ironic's format: JSON in a string in JSON.
func writeError(w http.ResponseWriter, r *http.Request, e *apiError) {
	fault := struct {
		FaultCode   string  `json:"faultcode"`
		FaultString string  `json:"faultstring"`
		DebugInfo   *string `json:"debuginfo"`
	}{FaultCode: "Client", FaultString: e.message}
	if e.status >= http.StatusInternalServerError {
		fault.FaultCode = "Server"
	}
	inner, err := ledger.PlainJSON(fault)
	if err != nil {
		panic(err) // strings always encode
	}
	body, err := ledger.PlainJSON(map[string]string{"error_message": string(inner)})
	if err != nil {
		panic(err) // strings always encode
	}
	if e.allow != "" {
		w.Header().Set("Allow", e.allow)
	}
	if e.retryAfter != "" {
		w.Header().Set("Retry-After", e.retryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone if this fails
	}
}

// statuses are the HTTP statuses of rejections; 400 for those not listed.
var statuses = map[commands.Code]int{
	commands.CodeTooLarge:               http.StatusRequestEntityTooLarge,
	commands.CodeCommandIDReused:        http.StatusConflict,
	commands.CodeNodeNotFound:           http.StatusNotFound,
	commands.CodeNodeExists:             http.StatusConflict,
	commands.CodeNodeAssociated:         http.StatusConflict,
	commands.CodeInstanceAssociated:     http.StatusConflict,
	commands.CodeNodeState:              http.StatusConflict,
	commands.CodeNodeProtected:          http.StatusForbidden,
	commands.CodeNodeBusy:               http.StatusConflict,
	commands.CodeNodeIsProvider:         http.StatusConflict,
	commands.CodeProviderInUse:          http.StatusConflict,
	commands.CodeInventoryInUse:         http.StatusConflict,
	commands.CodeProviderExists:         http.StatusConflict,
	commands.CodeNodeTraitNotFound:      http.StatusNotFound,
	commands.CodeNodeAllocationNotFound: http.StatusNotFound,
	commands.CodeNodeAllocationExists:   http.StatusConflict,
	commands.CodeChassisNotFound:        http.StatusNotFound,
	commands.CodeChassisExists:          http.StatusConflict,
}

// rejected tells a rejection of a command about what to a client.
func rejected(what string, r *commands.Rejection) *apiError {
	status, listed := statuses[r.Code]
	if !listed {
		status = http.StatusBadRequest
	}
	if r.Code == commands.CodeInvalid && r.Facts.Field == "traits" && r.Facts.Name != "" {
		name := r.Facts.Name
		return badRequest("Schema error for %s: '%s' is not valid under any of the given schemas. Possible root cause: '%s' does not match '^CUSTOM_[A-Z0-9_]+$'", what, name, name)
	}
	return errorf(status, "%s", r.Message)
}
