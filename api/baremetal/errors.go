package baremetal

import (
	"net/http"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

func allocationNotFound(ident string) *rest.Failure {
	return rest.NotFound("Allocation %s could not be found.", ident)
}

func nodeNotFound(status int, ident string) *rest.Failure {
	return rest.Errorf(status, "Node %s could not be found.", ident)
}

func chassisNotFound(status int, ident string) *rest.Failure {
	return rest.Errorf(status, "Chassis %s could not be found.", ident)
}

func notAcceptable() *rest.Failure {
	return rest.Errorf(http.StatusNotAcceptable, "Request not acceptable.")
}

func methodNotAllowed(allow string) *rest.Failure {
	e := rest.Errorf(http.StatusMethodNotAllowed, "The method is not allowed for this resource.")
	e.Allow = allow
	return e
}

// writeError answers in Ironic's format: JSON in a string in JSON.
func writeError(w http.ResponseWriter, r *http.Request, e *rest.Failure) {
	fault := struct {
		FaultCode   string  `json:"faultcode"`
		FaultString string  `json:"faultstring"`
		DebugInfo   *string `json:"debuginfo"`
	}{FaultCode: "Client", FaultString: e.Message}
	if e.Status >= http.StatusInternalServerError {
		fault.FaultCode = "Server"
	}
	inner, err := ledger.PlainJSON(fault)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	body, err := ledger.PlainJSON(map[string]string{"error_message": string(inner)})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	e.Header(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // if this fails the client is gone
	}
}

// statuses are the HTTP statuses of rejections; 400 for codes that are missing
// here.
var statuses = map[commands.Code]int{
	commands.CodeTooLarge:               http.StatusRequestEntityTooLarge,
	commands.CodeCommandIDReused:        http.StatusConflict,
	commands.CodeNotYet:                 http.StatusConflict,
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

// rejected answers a client's rejected command. what names the thing that the
// command is about.
func rejected(what string, r *commands.Rejection) *rest.Failure {
	status, listed := statuses[r.Code]
	if !listed {
		status = http.StatusBadRequest
	}
	if r.Code == commands.CodeInvalid && r.Facts.Field == "traits" && r.Facts.Name != "" {
		name := r.Facts.Name
		return rest.BadRequest(
			"Schema error for %s: '%s' is not valid under any of the given schemas. Possible root cause: '%s' does not match '^CUSTOM_[A-Z0-9_]+$'",
			what, name, name,
		)
	}
	return rest.Errorf(status, "%s", r.Message)
}
