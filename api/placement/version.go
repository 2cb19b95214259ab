package placement

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// version is a microversion 1.N, as N.
type version int

const (
	minVersion version = 0
	maxVersion version = 39

	versionHeader = "Openstack-Api-Version"
	serviceType   = "placement"
)

func (v version) String() string { return fmt.Sprintf("1.%d", int(v)) }

var versionPattern = regexp.MustCompile(`^(\d{1,9})\.(\d{1,9})$`)

// negotiate finds the microversion of a request: "placement X.Y" among the
// comma-separated services of the header; 1.0 if it names none.
func negotiate(header http.Header) (version, *apiError) {
	asked := ""
	for _, part := range strings.Split(strings.Join(header.Values(versionHeader), ","), ",") {
		fields := strings.Fields(part)
		if len(fields) == 2 && strings.EqualFold(fields[0], serviceType) {
			asked = fields[1]
		}
	}
	switch {
	case asked == "":
		return minVersion, nil
	case strings.EqualFold(asked, "latest"):
		return maxVersion, nil
	}
	match := versionPattern.FindStringSubmatch(asked)
	if match == nil {
		return 0, errorf(http.StatusBadRequest, "Invalid microversion: invalid version string: %s", asked)
	}
	major, errMajor := strconv.Atoi(match[1])
	minor, errMinor := strconv.Atoi(match[2])
	if errMajor != nil || errMinor != nil || major != 1 || minor > int(maxVersion) {
		err := errorf(http.StatusNotAcceptable, "Invalid microversion: Unacceptable version header: %s", asked)
		err.negotiation = true
		return 0, err
	}
	return version(minor), nil
}
