package rest

import (
	"net/http"
	"strconv"
	"strings"
)

// VersionHeader names the microversion of a request, for each service that the
// client has in mind: "placement 1.39, baremetal 1.94".
const VersionHeader = "Openstack-Api-Version"

// Version is a microversion: the N of 1.N.
type Version int

// String returns the microversion as headers have it.
func (v Version) String() string { return "1." + strconv.Itoa(int(v)) }

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

// parseVersion reads a version of two numbers of at most nine digits each.
func parseVersion(text string) (major string, minor int, wellFormed bool) {
	major, after, _ := strings.Cut(text, ".")
	for _, part := range []string{major, after} {
		if len(part) < 1 || len(part) > 9 || strings.Trim(part, "0123456789") != "" {
			return "", 0, false
		}
	}
	minor, err := strconv.Atoi(after)
	return major, minor, err == nil
}

// Negotiate finds the microversion of a request: the lowest if the request names
// none.
func (m *Microversions) Negotiate(header http.Header) (Version, *Failure) {
	asked := ""
	if m.OwnHeader != "" {
		asked = header.Get(m.OwnHeader)
	}
	for _, part := range strings.Split(strings.Join(header.Values(VersionHeader), ","), ",") {
		part = strings.ReplaceAll(strings.TrimSpace(part), "\t", " ")
		service, version, _ := strings.Cut(part, " ")
		if version != "" && strings.EqualFold(service, m.Service) {
			asked = version
		}
	}
	asked = strings.TrimSpace(asked)
	switch {
	case asked == "":
		return m.Min, nil
	case strings.EqualFold(asked, "latest"):
		return m.Max, nil
	}
	major, minor, wellFormed := parseVersion(asked)
	if failure := m.Refuse(asked, major, Version(minor), wellFormed); failure != nil {
		return 0, failure
	}
	return Version(minor), nil
}
