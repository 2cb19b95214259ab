package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/rest"
)

// answers sends a request with some headers, which are "Name: value".
func answers(g *rest.BrowserGuard, method, path, host string, headers ...string) int {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })).
		ServeHTTP(w, r)
	return w.Code
}

func TestHost(t *testing.T) {
	t.Parallel()
	local := &rest.BrowserGuard{CheckHost: true, Hosts: []string{"allot.example"}}
	public := &rest.BrowserGuard{CheckHost: true, AnyAddress: true}
	any := &rest.BrowserGuard{}
	for want, hosts := range map[[3]int][]string{
		{200, 200, 200}: {"127.0.0.1:8778", "localhost:8778", "LOCALHOST", "localhost.", "[::1]:8778", "127.1.2.3", "", "[::1"},
		{200, 403, 200}: {"allot.example", "Allot.Example:1"},
		{403, 200, 200}: {"10.0.0.1:8778", "[fd00::1]"},
		{403, 403, 200}: {
			"evil.example:8778", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example@127.0.0.1", "127.0.0.1:8778:1",
		},
	} {
		for _, host := range hosts {
			for _, method := range []string{"GET", "POST", "OPTIONS", "DELETE"} {
				ask := func(g *rest.BrowserGuard) int { return answers(g, method, "/x", host) }
				if got := [3]int{ask(local), ask(public), ask(any)}; got != want {
					t.Errorf("%s with Host %q: %v, want %v", method, host, got, want)
				}
			}
		}
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	g := &rest.BrowserGuard{CheckHost: true, Open: []string{"/"}, Allowed: func(r *http.Request) bool {
		return r.Header.Get("Origin") == "https://good.example"
	}}
	const host = "127.0.0.1:8778"
	for _, c := range []struct {
		headers     []string
		read, write int
	}{
		{nil, 200, 200}, // no browser
		{[]string{"Origin: http://127.0.0.1:8778"}, 200, 200},
		{[]string{"Origin: http://127.0.0.1:8778", "Sec-Fetch-Site: same-origin"}, 200, 200},
		{[]string{"Sec-Fetch-Site: none"}, 200, 200},
		{[]string{"Origin: https://good.example", "Sec-Fetch-Site: cross-site"}, 200, 200},
		{[]string{"Origin: http://evil.example"}, 403, 403},
		{[]string{"Origin: null"}, 403, 403},
		{[]string{"Origin: http://127.0.0.1:9999"}, 403, 403}, // another server of the same machine
		{[]string{"Origin: http://evil.example", "Sec-Fetch-Site: cross-site"}, 403, 403},
		{[]string{"Sec-Fetch-Site: same-site"}, 403, 403},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403, 403},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403, 403},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200, 403}, // a link
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: websocket", "Origin: http://evil.example"}, 403, 403},
	} {
		for method, want := range map[string]int{
			"GET": c.read, "HEAD": c.read, "POST": c.write, "PUT": c.write, "PATCH": c.write, "DELETE": c.write, "OPTIONS": 200,
		} {
			if got := answers(g, method, "/x", host, c.headers...); got != want {
				t.Errorf("%s with %q: %d, want %d", method, c.headers, got, want)
			}
		}
		if got := answers(g, "GET", "/", host, c.headers...); got != 200 {
			t.Errorf("GET / with %q: %d", c.headers, got)
		}
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, body, contentType string
		good                      bool
	}{
		{"POST", "{}", "application/json", true}, {"POST", "{}", "application/json; charset=utf-8", true},
		{"POST", "", "application/json", true}, {"PUT", "", "", true}, {"DELETE", "", "", true},
		{"DELETE", "", "application/octet-stream", true}, {"POST", "", "", false}, {"POST", "{}", "", false},
		{"PUT", "{}", "", false}, {"POST", "{}", "text/plain", false}, {"POST", "{}", "Text/Plain; charset=utf-8", false},
		{"POST", "{}", "application/x-www-form-urlencoded", false}, {"PATCH", "[]", "text/plain", false},
		{"POST", "{}", "multipart/form-data; boundary=x", false}, {"POST", "{}", "nonsense;;", false},
	} {
		r := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		if err := rest.CheckContentType(r); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
