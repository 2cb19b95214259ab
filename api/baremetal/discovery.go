package baremetal

// index returns the document at the root.
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

// versionDocument returns the document at /v1.
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
