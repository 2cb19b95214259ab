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
		w.Header().Set("Host", r.Host)
	}))
	const proxy, own = "10.0.0.1:1234", "http://own:8778/x"
	for _, c := range []struct {
		from    string
		headers map[string]string
		want    string // empty: refused
	}{
		{proxy, nil, own},
		{proxy, map[string]string{"X-Forwarded-Proto": "https"}, "https://own:8778/x"},
		{"[::ffff:10.0.0.1]:1", map[string]string{"X-Forwarded-Proto": "https"}, "https://own:8778/x"},
		{"[fd00::5%eth0]:1", map[string]string{"X-Forwarded-Proto": "HTTPS"}, "https://own:8778/x"},
		{"10.0.0.2:1", map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil"}, own},
		{"@", map[string]string{"X-Forwarded-Proto": "https"}, own},
		{
			proxy, map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloud:443", "X-Forwarded-Prefix": "/placement/"},
			"https://cloud:443/placement/x",
		},
		{proxy, map[string]string{"X-Forwarded-Host": "evil, cloud"}, "http://cloud/x"},
		{proxy, map[string]string{"Forwarded": `for=192.0.2.1;proto=http;host=evil, for=10.1.1.1;proto=https;host="[2001:db8::1]:443"`},
			"https://[2001:db8::1]:443/x"},
		{proxy, map[string]string{"Forwarded": "proto=https", "X-Forwarded-Host": "evil"}, "https://own:8778/x"},
		{proxy, map[string]string{"X-Forwarded-Proto": "gopher"}, ""},
		{proxy, map[string]string{"Forwarded": "proto=gopher"}, ""},
		{proxy, map[string]string{"X-Forwarded-Host": "a/b"}, ""},
		{proxy, map[string]string{"X-Forwarded-Host": "user@a"}, ""},
		{proxy, map[string]string{"X-Forwarded-Host": ":443"}, ""},
		{proxy, map[string]string{"X-Forwarded-Prefix": "placement"}, ""},
		{proxy, map[string]string{"X-Forwarded-Prefix": "/../x"}, ""},
		{proxy, map[string]string{"X-Forwarded-Prefix": "//evil"}, ""},
		{proxy, map[string]string{"X-Forwarded-Prefix": "/a?b"}, ""},
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
