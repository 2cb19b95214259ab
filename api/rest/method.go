package rest

import "net/http"

// KnownMethod maps unknown methods to one label, so that strangers cannot make up
// labels.
func KnownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return "other"
}
