package rest

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
)

// BrowserGuard stops web pages from using the server through the browser of a
// user who can reach it: pages of other origins, and pages whose name was made
// to point at the server (DNS rebinding). It lets through requests that no
// foreign page can have sent.
type BrowserGuard struct {
	// CheckHost requires requests to address the server by a name of its own: one
	// of Hosts, localhost, a loopback address of this machine, or, if AnyAddress
	// is set, any IP address. Any other name may belong to a foreign page that
	// was made to point here; an IP address cannot.
	CheckHost  bool
	AnyAddress bool
	Hosts      []string
	// Allowed reports whether the origin of a request may use the API (CORS);
	// nil: no other origin may.
	Allowed func(*http.Request) bool
	// Open are the paths of documents that any page may read.
	Open []string

	protection http.CrossOriginProtection
}

// Handler returns a handler that guards another one.
func (g *BrowserGuard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Admits(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Admits reports whether a request may be answered. If not, it answers why.
func (g *BrowserGuard) Admits(w http.ResponseWriter, r *http.Request) bool {
	if g.CheckHost && !g.knows(r.Host) {
		http.Error(w, fmt.Sprintf("This server does not answer to the name %.200q. Use its address or localhost, "+
			"or start it with --allowed-host for each other name that it has.", r.Host), http.StatusForbidden)
		return false
	}
	if g.foreign(r) {
		http.Error(w, "Pages of other origins may not use this API. Start the server with --cors-allowed-origin "+
			"for those that may.", http.StatusForbidden)
		return false
	}
	return true
}

// knows reports whether the server has the name that a Host header gives. Only
// HTTP/1.0 has no Host header, and no browser speaks that.
func (g *BrowserGuard) knows(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || g.AnyAddress) {
		return true
	}
	return host == "localhost" ||
		slices.ContainsFunc(g.Hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// foreign reports whether a page of another origin sends the request. Go's own
// check is about writes only. Here reads count, too, because they cost, except
// those that the user opens and no page can look into.
func (g *BrowserGuard) foreign(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.Method == http.MethodOptions: // It asks what is allowed, and does nothing.
		return false
	case reads && slices.Contains(g.Open, r.URL.EscapedPath()):
		return false
	case reads && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document":
		return false
	}
	asWrite := &http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}
	return g.protection.Check(asWrite) != nil && (g.Allowed == nil || !g.Allowed(r))
}

// CheckContentType refuses bodies without a type, and of types that pages may
// send to other origins without a preflight. It assumes that a POST has a body.
func CheckContentType(r *http.Request) error {
	given := r.Header.Values("Content-Type")
	if len(given) == 0 && r.ContentLength == 0 && r.Method != http.MethodPost {
		return nil
	}
	if len(given) != 1 {
		return fmt.Errorf("the request must have one Content-Type: application/json")
	}
	mediaType, _, err := mime.ParseMediaType(given[0])
	if err != nil || slices.Contains(unasked, mediaType) {
		return fmt.Errorf("the media type %.100q is not supported, use application/json", given[0])
	}
	return nil
}

// unasked are the types that need no preflight by the Fetch standard.
var unasked = []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}
