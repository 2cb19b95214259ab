package placement

import (
	"fmt"
	"html"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Codes of error bodies (microversion 1.23). Clients match them.
const (
	codeUndefined        = "placement.undefined_code"
	codeConcurrentUpdate = "placement.concurrent_update"
	codeInventoryInUse   = "placement.inventory.inuse"
	codeDuplicateName    = "placement.duplicate_name"
	codeProviderInUse    = "placement.resource_provider.inuse"
	codeDeleteParent     = "placement.resource_provider.cannot_delete_parent"
	codeOverLimit        = "allot.over_limit"
	codeProviderNotFound = "placement.resource_provider.not_found"
)

const codesSince version = 23

func conflict(code, format string, args ...any) *rest.Failure {
	failure := rest.Errorf(http.StatusConflict, format, args...)
	failure.Code = code
	return failure
}

func badRequest(code, format string, args ...any) *rest.Failure {
	failure := rest.BadRequest(format, args...)
	failure.Code = code
	return failure
}

// preambles are the sentences that Placement puts before its messages.
var preambles = map[int]string{
	http.StatusBadRequest:           "The server could not comply with the request since it is either malformed or otherwise incorrect.",
	http.StatusForbidden:            "Access was denied to this resource.",
	http.StatusNotFound:             "The resource could not be found.",
	http.StatusNotAcceptable:        "The resource could not be generated that was acceptable to your browser.",
	http.StatusConflict:             "There was a conflict when trying to complete your request.",
	http.StatusUnsupportedMediaType: "The request media type is not supported by this server.",
}

var tagPattern = regexp.MustCompile(`<[^<>]*>`)

// detail is the text of an error body: preamble and message on one line, without
// anything that a browser could take for markup.
func detail(e *rest.Failure, method string) string {
	preamble := preambles[e.Status]
	if e.Status == http.StatusMethodNotAllowed {
		preamble = "The method " + method + " is not allowed for this resource."
	}
	message := strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(e.Message)
	message = tagPattern.ReplaceAllString(message, "")
	if message == "" {
		return preamble
	}
	return preamble + "\n\n " + message + "  "
}

type errorBody struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	RequestID  string `json:"request_id"`
	MinVersion string `json:"min_version,omitempty"`
	MaxVersion string `json:"max_version,omitempty"`
}

// writeError answers in the error format, or as HTML or plain text to a client
// that does not accept JSON.
func writeError(w http.ResponseWriter, r *request, e *rest.Failure) {
	header := w.Header()
	e.Header(header)
	body := errorBody{
		Status: e.Status, Title: http.StatusText(e.Status), Detail: detail(e, r.Method), RequestID: r.ID,
	}
	if e.Status == http.StatusNotAcceptable && !r.negotiated { // the error is about the microversion
		body.MinVersion, body.MaxVersion = minVersion.String(), maxVersion.String()
	} else if r.negotiated && r.version >= codesSince {
		body.Code = e.Code
		if body.Code == "" {
			body.Code = codeUndefined
		}
	}
	if accept := r.Header.Get("Accept"); prefersHTML(accept) || !acceptsJSON(accept) {
		writePlainError(w, r, body)
		return
	}
	encoded, err := ledger.PlainJSON(map[string][]errorBody{"errors": {body}})
	if err != nil {
		panic(err) // strings and ints can always be encoded
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(encoded) // if this fails the client is gone
}

// writePlainError answers a client that does not accept JSON: as HTML if it
// accepts that, otherwise as plain text.
func writePlainError(w http.ResponseWriter, r *request, body errorBody) {
	if prefersHTML(r.Header.Get("Accept")) {
		title := html.EscapeString(fmt.Sprintf("%d %s", body.Status, body.Title))
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(body.Status)
		_, _ = fmt.Fprintf(w, "<html><head><title>%s</title></head><body><h1>%s</h1>%s</body></html>\n",
			title, title, html.EscapeString(body.Detail))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.WriteHeader(body.Status)
	_, _ = fmt.Fprintf(w, "%d %s\n\n%s\n", body.Status, body.Title, body.Detail)
}

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

const (
	jsonType = "application/json"
	htmlType = "text/html"
)

// quality returns how much an Accept header wants a media type, from 0 (not at
// all) to 1. The most specific range decides. As with WebOb, a header that is none counts as not sent.
func quality(accept, offer string) float64 {
	if strings.TrimSpace(accept) == "" {
		return 1
	}
	family, _, _ := strings.Cut(offer, "/")
	rank := map[string]int{"*/*": 0, family + "/*": 1, offer: 2}
	best, wanted := -1, 0.0
	for _, part := range strings.Split(accept, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil || !strings.Contains(mediaType, "/") {
			return 1
		}
		specific, matches := rank[mediaType]
		if !matches || specific < best {
			continue
		}
		q := 1.0
		if given, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(given, 64); err != nil {
				continue
			}
		}
		best, wanted = specific, q
	}
	return wanted
}

func acceptsJSON(accept string) bool { return quality(accept, jsonType) > 0 }

// prefersHTML chooses the format of errors as webob does: HTML if the client asks
// for it at least as much as for JSON.
func prefersHTML(accept string) bool {
	return accept != "" && quality(accept, htmlType) > 0 && quality(accept, htmlType) >= quality(accept, jsonType)
}
