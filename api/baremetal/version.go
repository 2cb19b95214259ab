package baremetal

import (
	"net/http"

	"github.com/allot-project/allot/api/rest"
)

type version = rest.Version

const (
	minVersion version = 1
	maxVersion version = 94

	versionHeader    = "X-Openstack-Ironic-Api-Version"
	minVersionHeader = "X-Openstack-Ironic-Api-Minimum-Version"
	maxVersionHeader = "X-Openstack-Ironic-Api-Maximum-Version"
	serviceType      = "baremetal"
)

// The microversions from which features exist.
const (
	availableSince      version = 2
	enrollSince         version = 11
	traitsSince         version = 37
	allocationsSince    version = 52
	updateSince         version = 57
	backfillSince       version = 58
	ownerSince          version = 60
	fieldsSince         version = 8  // lists of the wanted fields
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

var microversions = &rest.Microversions{
	Service: serviceType, OwnHeader: versionHeader, Min: minVersion, Max: maxVersion,
	Refuse: func(asked, major string, minor version, wellFormed bool) *rest.Failure {
		switch {
		case !wellFormed:
			return rest.Errorf(http.StatusNotAcceptable, "Invalid value for X-OpenStack-Ironic-API-Version header")
		case major != "1":
			return rest.Errorf(
				http.StatusNotAcceptable,
				"Mutually exclusive versions requested. Version %s requested but not supported by this service. The supported version range is: [%s, %s].",
				asked, minVersion, maxVersion,
			)
		case minor < minVersion || minor > maxVersion:
			return rest.Errorf(
				http.StatusNotAcceptable,
				"Version %s was requested but the minor version is not supported by this service. The supported version range is: [%s, %s].",
				asked, minVersion, maxVersion,
			)
		}
		return nil
	},
}

func (r *request) index() any {
	v1 := r.versionEntry()
	return object{
		{"name", "OpenStack Ironic API"},
		{
			"description",
			"Allot: an allocation ledger that speaks Ironic's allocations API. It records what is declared of nodes; it contacts no hardware.",
		},
		{"default_version", v1},
		{"versions", []object{v1}},
	}
}

func (r *request) versionEntry() object {
	return object{
		{"id", "v1"},
		{"links", []link{{Href: r.base + "/v1/", Rel: "self"}}},
		{"status", "CURRENT"},
		{"min_version", minVersion.String()},
		{"version", maxVersion.String()},
	}
}

func (r *request) versionDocument() any {
	doc := object{
		{"id", "v1"},
		{"links", []link{
			{Href: r.base + "/v1/", Rel: "self"},
			{Href: "https://docs.openstack.org/api-ref/baremetal/", Rel: "describedby", Type: "text/html"},
		}},
		{"media_types", object{{"base", "application/json"}, {"type", "application/vnd.openstack.ironic.v1+json"}}},
		{"chassis", r.links("/chassis/")},
		{"nodes", r.links("/nodes/")},
		{"version", r.versionEntry()},
	}
	if r.version >= allocationsSince {
		doc = append(doc, member{"allocations", r.links("/allocations/")})
	}
	if r.version >= nodeShardSince {
		doc = append(doc, member{"shards", r.links("/shards/")})
	}
	return doc
}
