package rest_test

import (
	"net/http"
	"testing"

	"github.com/allot-project/allot/api/rest"
)

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
		{"metal 1.4, metal 1.5", "", 5, ""}, {"compute 2.1", " 1.7 ", 7, ""}, {"compute 2.1", "", 1, ""},
		{"metal latest", "", 9, ""}, {"", "LATEST", 9, ""}, {"metal", "", 1, ""}, {"metal 2.5", "", 0, "2.5"},
		{"metal 1.10", "", 0, "1.10"}, {"metal 1.5.1", "", 0, "1.5.1"}, {"metal 1.-5", "", 0, "1.-5"},
		{"metal 1.99999999999999999999", "", 0, "1.99999999999999999999"},
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
