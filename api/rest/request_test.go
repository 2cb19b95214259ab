package rest_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestOneParser: no other file of the REST APIs reads query strings or forms, so
// policy and handlers cannot read them differently.
func TestOneParser(t *testing.T) {
	t.Parallel()
	other := regexp.MustCompile(
		`\.RawQuery|URL\.Query\(|url\.ParseQuery|FormValue|ParseForm|ParseMultipart|\.PostForm|r\.Form\b`,
	)
	checked := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, "rest/query.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if found := other.Find(text); found != nil {
			t.Errorf("%s uses %s; query strings are read by rest.ParseQuery alone", path, found)
		}
		checked++
		return err
	})
	if err != nil || checked < 50 {
		t.Fatalf("%d files checked, %v", checked, err)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	q := rest.ParseQuery(httptest.NewRequest("GET", "/?a=1&a=2&b=&a=3", nil))
	if q.Fault() != nil || q.Get("a") != "3" || q.First("a") != "1" || len(q.All("a")) != 3 || !q.Has("b") || q.Has("c") ||
		q.Get("c") != "" {
		t.Errorf("%+v", q)
	}
	for _, query := range []string{"a=1&b=%zz", "a=1;b=2", "a=1&b=%ff", "%ff=1&a=1"} {
		q := rest.ParseQuery(httptest.NewRequest("GET", "/?"+query, nil))
		if q.Fault() == nil || q.Get("a") != "" || q.Has("a") {
			t.Errorf("%s: %v, a is %q", query, q.Fault(), q.Get("a"))
		}
		if _, err := q.TakeBool("dry_run"); err == nil {
			t.Errorf("%s: the fault is passed over", query)
		}
	}
}

// TestNegotiate: the standard header counts for the service that it names, and
// the service's own header if it does not; the API is asked about all other
// versions.
func TestNegotiate(t *testing.T) {
	t.Parallel()
	versions := &rest.Microversions{
		Service: "metal", OwnHeader: "X-Metal-Version", Min: 1, Max: 9,
		Refuse: func(asked, major string, minor rest.Version, wellFormed bool) *rest.Failure {
			if !wellFormed || major != "1" || minor > 9 {
				return rest.BadRequest("%s", asked)
			}
			return nil
		},
	}
	for _, c := range []struct {
		standard, own string
		want          rest.Version
		refused       string
	}{
		{"", "", 1, ""}, {"metal 1.5", "", 5, ""}, {"METAL 1.5", "1.7", 5, ""}, {"compute 2.1, metal 1.5", "", 5, ""},
		{"metal 1.4, metal\t1.5", "", 5, ""}, {"compute 2.1", " 1.7 ", 7, ""}, {"compute 2.1", "", 1, ""},
		{"metal latest", "", 9, ""}, {"", "LATEST", 9, ""}, {"metal", "", 1, ""}, {"metal 2.5", "", 0, "2.5"},
		{"metal 1.10", "", 0, "1.10"}, {"metal 1.5.1", "", 0, "1.5.1"}, {"metal 1.-5", "", 0, "1.-5"},
		{"metal 1.99999999999999999999", "", 0, "1.99999999999999999999"},
		{"metal 1.2 1.3", "", 0, "1.2 1.3"},
	} {
		header := http.Header{}
		header.Set(rest.VersionHeader, c.standard)
		header.Set("X-Metal-Version", c.own)
		got, failure := versions.Negotiate(header)
		refused := ""
		if failure != nil {
			refused = failure.Message
		}
		if got != c.want || refused != c.refused {
			t.Errorf("%q, %q: %s, refused: %q", c.standard, c.own, got, refused)
		}
	}
}

// TestBelieveProxies: a trusted proxy says how its client called the server; the same
// headers from elsewhere mean nothing; and what no proxy says is refused.
func TestBelieveProxies(t *testing.T) {
	t.Parallel()
	var trusted [2]rest.ProxyRange
	for i, text := range []string{"10.0.0.1", "fd00::/8"} {
		ledgertest.OK(t, trusted[i].UnmarshalText([]byte(text)))
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
