package baremetal

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// version is a microversion: the N of 1.N.
type version int

const (
	minVersion version = 1
	maxVersion version = 91

	versionHeader    = "X-Openstack-Ironic-Api-Version"
	minVersionHeader = "X-Openstack-Ironic-Api-Minimum-Version"
	maxVersionHeader = "X-Openstack-Ironic-Api-Maximum-Version"
	standardHeader   = "Openstack-Api-Version"
	serviceType      = "baremetal"
)

// The microversions from which something exists.
const (
	availableSince      version = 2
	enrollSince         version = 11
	traitsSince         version = 37
	allocationsSince    version = 52
	updateSince         version = 57
	backfillSince       version = 58
	ownerSince          version = 60
	fieldsSince         version = 8  // lists of the fields that are asked for
	unsetChassisSince   version = 25 // nodes can be taken out of their chassis
	detailSince         version = 43 // the parameter detail of lists
	literalSuffixSince  version = 91 // ".json" is part of the name
	nodeResourceClass   version = 21
	nodeOwnerSince      version = 50
	nodeDescription     version = 51
	nodeProtectedSince  version = 48
	nodeConductorSince  version = 49
	nodeRetiredSince    version = 61
	nodeLesseeSince     version = 65
	nodeNetworkData     version = 66
	nodeBootModeSince   version = 75
	nodeShardSince      version = 82
	nodeNamesSince      version = 5
	nodeAutomatedClean  version = 47
	nodeConductorGroups version = 46
)

func (v version) String() string { return fmt.Sprintf("1.%d", int(v)) }

var versionPattern = regexp.MustCompile(`^(\d{1,9})\.(\d{1,9})$`)

// negotiate finds the microversion of a request: that of the standard header
// if it names the service, else that of Ironic's own, else the lowest.
func negotiate(header http.Header) (version, *apiError) {
	asked := header.Get(versionHeader)
	for _, part := range strings.Split(strings.Join(header.Values(standardHeader), ","), ",") {
		fields := strings.Fields(part)
		if len(fields) == 2 && strings.EqualFold(fields[0], serviceType) {
			asked = fields[1]
		}
	}
	asked = strings.TrimSpace(asked)
	switch {
	case asked == "":
		return minVersion, nil
	case strings.EqualFold(asked, "latest"):
		return maxVersion, nil
	}
	match := versionPattern.FindStringSubmatch(asked)
	if match == nil {
		return 0, errorf(http.StatusNotAcceptable, "Invalid value for X-OpenStack-Ironic-API-Version header")
	}
	minor, err := strconv.Atoi(match[2])
	if match[1] != "1" {
		return 0, errorf(http.StatusNotAcceptable, "Mutually exclusive versions requested. Version %s requested but not supported by this service. The supported version range is: [%s, %s].", asked, minVersion, maxVersion)
	}
	if v := version(minor); err == nil && v >= minVersion && v <= maxVersion {
		return v, nil
	}
	return 0, errorf(http.StatusNotAcceptable, "Version %s was requested but the minor version is not supported by this service. The supported version range is: [%s, %s].", asked, minVersion, maxVersion)
}
