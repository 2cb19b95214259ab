package rest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/allot-project/allot/api/rest"
)

// TestBelieveProxies: a trusted proxy says how its client called the server; the same
// headers from elsewhere mean nothing; and what no proxy says is refused.
func TestBelieveProxies(t *testing.T) {
	t.Parallel()
	var trusted [2]rest.ProxyRange
	for i, text := range []string{"10.0.0.1", "fd00::/8"} {
		if err := trusted[i].UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	handler := rest.BelieveProxies(trusted[:], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", rest.Base(r)+"/x")
	}))
	const proxy, own = "10.0.0.1:1234", "http://own:8778/x"
	const xProto, xHost, xPrefix = "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix"
	type headers = map[string]string
	for _, c := range []struct {
		from    string
		headers headers
		want    string // empty: refused
	}{
		{proxy, nil, own},
		{proxy, headers{xProto: "https"}, "https://own:8778/x"},
		{"[::ffff:10.0.0.1]:1", headers{xProto: "https"}, "https://own:8778/x"},
		{"[fd00::5%eth0]:1", headers{xProto: "HTTPS"}, "https://own:8778/x"},
		{"10.0.0.2:1", headers{xProto: "https", xHost: "evil"}, own},
		{"@", headers{xProto: "https"}, own},
		{proxy, headers{xProto: "https", xHost: "cloud:443", xPrefix: "/placement/"}, "https://cloud:443/placement/x"},
		{proxy, headers{xHost: "evil, cloud"}, "http://cloud/x"},
		{proxy, headers{"Forwarded": `for=192.0.2.1;proto=http;host=evil, for=10.1.1.1;proto=https;host="[2001:db8::1]:443"`},
			"https://[2001:db8::1]:443/x"},
		{proxy, headers{"Forwarded": "proto=https", xHost: "evil"}, "https://own:8778/x"},
		{proxy, headers{xProto: "gopher"}, ""}, {proxy, headers{"Forwarded": "proto=gopher"}, ""},
		{proxy, headers{xHost: "a/b"}, ""}, {proxy, headers{xHost: "user@a"}, ""}, {proxy, headers{xHost: ":443"}, ""},
		{proxy, headers{xPrefix: "placement"}, ""}, {proxy, headers{xPrefix: "/../x"}, ""},
		{proxy, headers{xPrefix: "//evil"}, ""}, {proxy, headers{xPrefix: "/a?b"}, ""},
	} {
		r := httptest.NewRequest("GET", "/x", nil)
		r.Host, r.RemoteAddr = "own:8778", c.from
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != c.want || (w.Code == http.StatusBadRequest) != (c.want == "") {
			t.Errorf("from %s with %v: %d %q, want %q", c.from, c.headers, w.Code, got, c.want)
		}
	}
	var bad rest.ProxyRange
	for _, text := range []string{"", "proxy.example", "10.0.0.0/33"} {
		if bad.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is taken for addresses", text)
		}
	}
}
