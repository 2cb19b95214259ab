package rest

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// VersionHeader names the microversion of a request, for each service that the
// client has in mind: "placement 1.39, baremetal 1.91".
const VersionHeader = "Openstack-Api-Version"

// Version is a microversion: the N of 1.N.
type Version int

// String returns the microversion as headers have it.
func (v Version) String() string { return fmt.Sprintf("1.%d", int(v)) }

// Microversions are the range of microversions of an API.
type Microversions struct {
	Service   string // its name in VersionHeader
	OwnHeader string // header that counts if VersionHeader does not name the service; empty: none
	Min, Max  Version
	// Refuse returns the failure for a version that the API does not have, or
	// nil. The client asked for MAJOR.MINOR or, if wellFormed is false, for a
	// malformed version.
	Refuse func(asked, major string, minor Version, wellFormed bool) *Failure
}

var versionPattern = regexp.MustCompile(`^(\d{1,9})\.(\d{1,9})$`)

// Negotiate finds the microversion of a request: the lowest if the request names
// none.
func (m *Microversions) Negotiate(header http.Header) (Version, *Failure) {
	asked := ""
	if m.OwnHeader != "" {
		asked = header.Get(m.OwnHeader)
	}
	for _, part := range strings.Split(strings.Join(header.Values(VersionHeader), ","), ",") {
		fields := strings.Fields(part)
		if len(fields) == 2 && strings.EqualFold(fields[0], m.Service) {
			asked = fields[1]
		}
	}
	asked = strings.TrimSpace(asked)
	switch {
	case asked == "":
		return m.Min, nil
	case strings.EqualFold(asked, "latest"):
		return m.Max, nil
	}
	major, minor, wellFormed := "", 0, false
	if match := versionPattern.FindStringSubmatch(asked); match != nil {
		var err error
		minor, err = strconv.Atoi(match[2])
		major, wellFormed = match[1], err == nil
	}
	if failure := m.Refuse(asked, major, Version(minor), wellFormed); failure != nil {
		return 0, failure
	}
	return Version(minor), nil
}
