package baremetal

import (
	"net/http"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/demand"
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
var statuses = map[demand.Code]int{
	demand.CodeTooLarge:               http.StatusRequestEntityTooLarge,
	demand.CodeCommandIDReused:        http.StatusConflict,
	demand.CodeNotYet:                 http.StatusConflict,
	demand.CodeNodeNotFound:           http.StatusNotFound,
	demand.CodeNodeExists:             http.StatusConflict,
	demand.CodeNodeAssociated:         http.StatusConflict,
	demand.CodeInstanceAssociated:     http.StatusConflict,
	demand.CodeNodeState:              http.StatusConflict,
	demand.CodeNodeProtected:          http.StatusForbidden,
	demand.CodeNodeBusy:               http.StatusConflict,
	demand.CodeNodeIsProvider:         http.StatusConflict,
	demand.CodeProviderInUse:          http.StatusConflict,
	demand.CodeOverLimit:              http.StatusConflict,
	demand.CodeCapacityExceeded:       http.StatusConflict,
	demand.CodeInventoryInUse:         http.StatusConflict,
	demand.CodeProviderExists:         http.StatusConflict,
	demand.CodeNodeTraitNotFound:      http.StatusNotFound,
	demand.CodeNodeAllocationNotFound: http.StatusNotFound,
	demand.CodeNodeAllocationExists:   http.StatusConflict,
	demand.CodeChassisNotFound:        http.StatusNotFound,
	demand.CodeChassisExists:          http.StatusConflict,
}

// rejected answers a client's rejected command. what names the thing that the
// command is about.
func rejected(what string, r *demand.Rejection) *rest.Failure {
	status, listed := statuses[r.Code]
	if !listed {
		status = http.StatusBadRequest
	}
	if r.Code == demand.CodeInvalid && r.Facts.Field == "traits" && r.Facts.Name != "" {
		name := r.Facts.Name
		return rest.BadRequest(
			"Schema error for %s: '%s' is not valid under any of the given schemas. Possible root cause: '%s' does not match '^CUSTOM_[A-Z0-9_]+$'",
			what, name, name,
		)
	}
	return rest.Errorf(status, "%s", r.Message)
}
