package placement

import (
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/rest"
)

type version = rest.Version

const (
	minVersion version = 0
	maxVersion version = 39

	serviceType = "placement"
)

// microversions are those of Placement. A client that asks for another one is
// told the range.
var microversions = &rest.Microversions{
	Service: serviceType, Min: minVersion, Max: maxVersion,
	Refuse: func(asked, major string, minor version, wellFormed bool) *rest.Failure {
		switch {
		case !wellFormed:
			return rest.BadRequest("Invalid microversion: invalid version string: %s", asked)
		case strings.TrimLeft(major, "0") != "1" || minor > maxVersion:
			return rest.Errorf(http.StatusNotAcceptable, "Invalid microversion: Unacceptable version header: %s", asked)
		}
		return nil
	},
}

// showRoot answers the version document, which is the same at every microversion
// and open to everybody.
func showRoot(*request) (*response, error) {
	return ok(m{"versions": []any{m{
		"id": "v1.0", "status": "CURRENT", "min_version": minVersion.String(), "max_version": maxVersion.String(),
		"links": []any{m{"rel": "self", "href": ""}},
	}}}, 0), nil
}
