package shadow

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger"
)

// ownHeaders are about one connection, and not about the request.
var ownHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Accept-Encoding", "Content-Length", "Expect",
}

func forwarded(from http.Header) http.Header {
	header := from.Clone()
	for _, list := range from.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range ownHeaders {
		delete(header, name)
	}
	return header
}

// refuse answers in the form of Placement's errors.
func refuse(w http.ResponseWriter, status int, detail string) {
	body, err := ledger.PlainJSON(map[string]any{"errors": []any{map[string]any{
		"status": status, "title": http.StatusText(status), "detail": detail, "request_id": "req-" + uuid.NewString(),
	}}})
	if err != nil {
		http.Error(w, detail, status)
		return
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", secondsOfRetry)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails the client is gone
}

// copyHeader begins the answer. Its links lead to the proxy.
func (s front) copyHeader(w http.ResponseWriter, r *http.Request, e *entry, answer *http.Response) {
	header := w.Header()
	for name, values := range forwarded(answer.Header) {
		header[name] = slices.Clone(values)
	}
	if location, err := url.Parse(answer.Header.Get("Location")); err == nil && location.Path != "" {
		if location.Host != "" {
			location.Scheme, location.Host = "http", r.Host
			if r.TLS != nil {
				location.Scheme = "https"
			}
		}
		mounted := strings.TrimRight(s.sides.peers[e.lead].URL.Path, "/")
		location.Path = e.prefix + strings.TrimPrefix(location.Path, mounted)
		header.Set("Location", location.String())
	}
	if answer.ContentLength >= 0 && answer.StatusCode != http.StatusNoContent {
		header.Set("Content-Length", fmt.Sprint(answer.ContentLength))
	}
	w.WriteHeader(answer.StatusCode)
}

// unreachable answers when the leader does not.
func (s front) unreachable(w http.ResponseWriter, r *http.Request, e *entry, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	s.answered(e.lead, e, 0, 0)
	if s.watch.mayLogAway() {
		s.config.Logger.Warn("the leader does not answer", "lead", e.lead.String(), "error", err)
	}
	refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("The service behind this proxy (%s) does not answer. "+
		"If the request is a write, whether it was carried out is not known: read, and try again.", e.lead))
}
